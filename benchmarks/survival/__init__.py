"""What of a conversation is left when something goes wrong: the same accidents for this library and for others.

`python -m benchmarks.survival`; see `scenarios.py` for the accidents, `systems` for who has them.
"""
