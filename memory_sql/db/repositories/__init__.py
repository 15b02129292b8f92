"""One repository for each aggregate, written under its row lock."""
