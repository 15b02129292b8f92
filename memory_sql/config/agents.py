"""The settings that an agent may have of its own, checked before they are stored with the agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from memory_sql.config.settings import AGENT_SETTINGS, own_settings, wrong_names
from memory_sql.errors import InputError
from memory_sql.later import later

if TYPE_CHECKING:
    import difflib
else:
    difflib = later("difflib")


def checked_for_agent(given: Mapping[str, Any]) -> dict[str, Any]:
    """The values as they are stored with an agent, without those given as None. Null means forever.

    Raises `InputError` naming the settings that are wrong or can't differ by agent.
    """
    unknown = sorted(set(given) - set(AGENT_SETTINGS))
    if unknown:
        raise InputError(f"settings that can't be set for an agent: {', '.join(map(_with_nearest, unknown))}")
    try:
        checked = own_settings().model_validate({n: value for n, value in given.items() if value is not None})
    except ValidationError as error:
        raise InputError(f"settings: {wrong_names(error)}") from None
    return checked.model_dump(exclude_unset=True)


def _with_nearest(name: str) -> str:
    near = difflib.get_close_matches(name, AGENT_SETTINGS, 1)
    return f"{name} (did you mean {near[0]}?)" if near else name
