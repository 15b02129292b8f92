"""The faces of `Memory`. Each opens its own transactions."""
