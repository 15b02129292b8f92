"""Whether a message asks for observations, and what a query asks for: pure rules."""
