"""Imports memory from other systems."""
