"""What becomes of an observation later: corrected, forgotten, evicted."""
