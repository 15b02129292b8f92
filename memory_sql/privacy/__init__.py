"""What must not be kept, or not be shared."""

from typing import Literal, get_args

Sensitivity = Literal["public", "private", "sensitive"]
SENSITIVITIES: tuple[Sensitivity, ...] = get_args(Sensitivity)  # each more private than the one before
