"""Text handling, and the words of each language."""
