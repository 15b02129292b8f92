"""Reads that span aggregates, one statement each."""
