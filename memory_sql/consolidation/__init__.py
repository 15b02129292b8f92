"""A scope's observations, consolidated into its text."""
