"""Other systems, used as their own guides say. Their requirements are in `benchmarks/requirements.txt`."""
