"""What goes into the prompt."""
