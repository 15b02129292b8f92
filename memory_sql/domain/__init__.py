"""The values that go in and come out: frozen, validated at the edge, printed as they are by `--json`."""
