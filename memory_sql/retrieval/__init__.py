"""Finding single observations: whether to look, what for, and by which vectors."""
