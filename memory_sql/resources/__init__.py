"""The faces of `Memory`: each opens its own transactions."""
