"""What must not be stored or shared."""

from typing import Literal, get_args

Sensitivity = Literal["public", "private", "sensitive"]
SENSITIVITIES: tuple[Sensitivity, ...] = get_args(Sensitivity)  # in increasing order
