"""What a text is, and the words of each language."""
