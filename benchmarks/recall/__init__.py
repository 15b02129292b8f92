"""How well the right memory is found: questions with known evidence, asked of this library and of others in one run."""
