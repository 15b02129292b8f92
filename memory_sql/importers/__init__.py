"""Memory that comes from other systems."""
