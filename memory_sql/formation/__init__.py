"""What a message weighs and when it is read, and the step that forms observations."""
