"""The prices of models, as the operator sets them."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal, InvalidOperation

from memory_sql.domain.ids import Value
from memory_sql.errors import InputError

MOST = 1_000_000  # for a million tokens


class Price(Value):
    """The price of a model, for a million input and output tokens, from `valid_from` (UTC) until its next price.

    `model`: as in `runs` and `v_model_cost`. `currency`: three letters, ISO 4217.
    """

    model: str
    valid_from: date
    currency: str
    input_per_million: Decimal
    output_per_million: Decimal


def amount_of(name: str, value: Decimal | float | str) -> Decimal:
    """Raises `InputError` unless it is from 0 to a million."""
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        amount = Decimal("NaN")
    if isinstance(value, bool) or not amount.is_finite() or not 0 <= amount <= MOST:
        raise InputError(f"{name} must be a number from 0 to {MOST:,}")
    return amount


def currency_of(value: str) -> str:
    """Raises `InputError`."""
    if not isinstance(value, str) or not re.fullmatch("[A-Z]{3}", value):
        raise InputError("currency must be three capital letters, such as EUR")
    return value


def day_of(name: str, value: date) -> date:
    """Raises `InputError`."""
    if not isinstance(value, date) or isinstance(value, datetime):
        raise InputError(f"{name} must be a date")
    return value


def model_of(value: str) -> str:
    """Raises `InputError`."""
    if not isinstance(value, str) or not value.strip() or len(value) > 255:
        raise InputError("model must be the name of a model, of at most 255 characters")
    return value.strip()
