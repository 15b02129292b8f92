"""Others, with what their own guides tell a user to do. What they need is in `benchmarks/requirements.txt`."""
