"""The settings that an agent may have of its own, checked before they are stored with the agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from memory_sql.config.settings import AGENT_SETTINGS, own_settings, wrong_names
from memory_sql.errors import InputError


def checked_for_agent(given: Mapping[str, Any]) -> dict[str, Any]:
    """The values as they are stored with an agent, without those given as None. Null means forever.

    Raises `InputError` naming the settings that are wrong or can't differ by agent.
    """
    unknown = sorted(set(given) - set(AGENT_SETTINGS))
    if unknown:
        raise InputError(f"settings that can't be set for an agent: {', '.join(unknown)}")
    try:
        checked = own_settings().model_validate({n: value for n, value in given.items() if value is not None})
    except ValidationError as error:
        raise InputError(f"settings: {wrong_names(error)}") from None
    return checked.model_dump(exclude_unset=True)
