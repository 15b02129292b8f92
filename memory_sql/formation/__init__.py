"""What is said: buffered, then formed into observations."""
