"""The settings that a scope may have of its own, which decide what kind of memory it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from memory_sql.config.fields import setting
from memory_sql.config.kinds import (
    BUFFER_MAX,
    BUFFER_MAX_ITEMS,
    BUFFER_MAX_WORDS,
    MOST_COUNTED,
    MOST_KEPT,
    MOST_WORDS,
    ExtractionMode,
    Lanes,
    Language,
    Plain,
    Sharing,
)
from memory_sql.config.settings import Settings, wrong_names
from memory_sql.errors import InputError


class ScopeSettings(BaseModel):
    """A scope's own settings. What isn't given isn't changed. None: the setting of the scope's agent, else the default."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    if not TYPE_CHECKING:  # the checkers know the parameters from the fields

        def __init__(self, **given: Any) -> None:
            try:
                super().__init__(**given)
            except ValidationError as error:
                raise InputError(f"settings: {wrong_names(error, type(self))}") from None

    is_active: Annotated[bool | None, setting("false: the agent neither reads nor writes it any more")] = None
    consolidate: Annotated[bool | None, setting("false: observations are kept, but no text is written from them")] = (
        None
    )
    lanes: Annotated[
        Lanes | None,
        setting("new observations go into the text (absorb), are kept while among the newest few (buffer), or both"),
    ] = None
    extraction_mode: Annotated[
        ExtractionMode | None,
        setting("batch: extracted in one call with other scopes; isolated: in a call of its own, as with an own model"),
    ] = None
    extraction_model: Annotated[str | None, setting("its own model for formation"), Plain] = None
    consolidation_model: Annotated[str | None, setting("its own model for consolidation"), Plain] = None
    consolidation_threshold: Annotated[
        int | None, setting("pending observations that make it due for consolidation", ge=1, le=MOST_COUNTED)
    ] = None
    consolidation_characters: Annotated[
        int | None,
        setting("characters of pending observations that make it due, however few they are", ge=100, le=MOST_KEPT),
    ] = None
    consolidation_max_words: Annotated[int | None, setting("maximum words of its text", ge=20, le=MOST_WORDS)] = None
    observation_min_items: Annotated[
        int | None, setting("minimum observations that an extraction call is asked for", ge=0, le=50)
    ] = None
    observation_max_items: Annotated[
        int | None, setting("maximum observations of one extraction call", ge=0, le=50)
    ] = None
    observation_max_words: Annotated[
        int | None, setting("maximum words of one extracted observation", ge=5, le=10_000)
    ] = None
    buffer_min_items: Annotated[int | None, setting("like observation_min_items, for the buffer", ge=0, le=50)] = None
    buffer_max_items: Annotated[int | None, setting("like observation_max_items, for the buffer", ge=0, le=50)] = None
    buffer_max_words: Annotated[int | None, setting("like observation_max_words, for the buffer", ge=5, le=10_000)] = (
        None
    )
    buffer_max: Annotated[
        int | None, setting("newest observations that the buffer keeps; older ones are evicted", ge=0, le=10_000)
    ] = None
    language: Annotated[Language | None, setting("text search configuration of its new observations")] = None
    sharing: Annotated[Sharing | None, setting("of a group: whether claims are propagated into it and out of it")] = (
        None
    )


# What counts if a scope has no value of its own: a setting of its agent, or a constant of ours.
OF_AGENT = {
    "extraction_model": "fast_model",
    "consolidation_model": "slow_model",
    "consolidation_threshold": "consolidation_threshold",
    "consolidation_max_words": "consolidation_max_words",
    "observation_max_items": "observation_max_items",
    "observation_max_words": "observation_max_words",
    "language": "language",
    "sharing": "sharing",
}
DEFAULTS: Mapping[str, Any] = {
    "is_active": True,
    "consolidate": True,
    "consolidation_characters": None,
    "lanes": "absorb",
    "extraction_mode": "batch",
    "observation_min_items": 0,
    "buffer_min_items": 0,
    "buffer_max_items": BUFFER_MAX_ITEMS,
    "buffer_max_words": BUFFER_MAX_WORDS,
    "buffer_max": BUFFER_MAX,
}
SCOPE_SETTINGS = tuple(ScopeSettings.model_fields)


def settings_of_scope(given: Mapping[str, Any]) -> ScopeSettings:
    """Parses values from a command line. Raises `InputError` naming the settings that are wrong, never their values."""
    unknown = sorted(set(given) - set(SCOPE_SETTINGS))
    if unknown:
        raise InputError(f"settings that can't be set for a scope: {', '.join(unknown)}")
    return ScopeSettings(**given)


def stored(changes: ScopeSettings, settings: Settings) -> dict[str, Any]:
    """The columns that these changes set, by name. `settings` are those of the scope's agent: its language is stored too."""
    given = changes.model_dump(exclude_unset=True)
    absent = {**DEFAULTS, "language": settings.language}
    return {name: absent.get(name) if value is None else value for name, value in given.items()}
