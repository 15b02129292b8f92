"""The memory of the legacy system, which MongoDB holds: `sources` read it, `mapping` says what becomes of it."""
