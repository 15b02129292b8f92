"""What a text tells of a person, and what in it is a secret: by rules, without a model."""
