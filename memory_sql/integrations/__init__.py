"""Memory as other packages expect it."""
