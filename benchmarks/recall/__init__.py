"""How well the right memory is found: questions whose evidence is known, asked of this library and of others in one run."""
