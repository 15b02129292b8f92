"""What must not be kept, or not be shared."""
