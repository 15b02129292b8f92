"""Consolidates a scope's observations into its text."""
