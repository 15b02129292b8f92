"""The values that callers pass and get: frozen, validated where they come in, printed unchanged by `--json`."""
