"""What a setting can be: its words, the limits of numbers, and how a text of the environment is read."""

from __future__ import annotations

import json
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BeforeValidator
from pydantic_settings import NoDecode

from memory_sql.errors import InputError
from memory_sql.languages.dates import zone_of
from memory_sql.privacy import Sensitivity

UNKNOWN_NAMES = 2
RETRIEVAL_DAYS = 30  # that `stats` sums up
VECTORS_OBSERVATIONS = 1000  # in a scope, above which vectors are advised if … (R124, R138)
VECTORS_MILLISECONDS = 100.0  # … searching took longer than this in the mean (R138)
VECTORS_WITHOUT_HIT = 0.2  # … or more than this share of what searched found nothing (R124: relevance under 80 %)
OPENAI_DIMENSIONS, LOCAL_DIMENSIONS = 1536, 512
MOST_MINUTES = 5_256_000.0  # ten years
MOST_DAYS = 36_500.0
MOST_ITEMS, MOST_CHARACTERS, MOST_TOKENS = 1_000, 200_000, 400_000  # of a digest's budget
CONTEXT_LEAST_TOKENS = 4  # an empty one has them
FOREVER = "forever"  # TOML and the environment have no word for None
BUDGET_KINDS = ("fact", "note", "procedure", "episode")

Assembly = Literal["eden", "digest", "both"]
ContextFormat = Literal["standard", "legacy"]
ContextKind = Literal["collective", "agent", "guideline", "group", "entity", "conversation", "individual"]
CONTEXT_KINDS: tuple[ContextKind, ...] = get_args(ContextKind)  # what most readers share, and so see alike, first
Secrets = Literal["mask", "keep", "refuse"]


def _listed(value: object) -> object:
    """From the environment or the command line: names with commas between them, or JSON."""
    if not isinstance(value, str):
        return value
    return json.loads(value) if value.startswith("[") else [name.strip() for name in value.split(",") if name.strip()]


def _each_once(kinds: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(kinds)) < len(kinds):
        raise ValueError("a kind is named twice")
    return kinds


def _zone(name: str) -> str:
    try:
        return zone_of(name).key
    except InputError as error:
        raise ValueError(str(error)) from None  # which Pydantic reports with the setting's name


def _none_if_forever(value: object) -> object:
    return None if value == FOREVER else value


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_listed)]
Sensitivities = Annotated[tuple[Sensitivity, ...], NoDecode, BeforeValidator(_listed)]
ContextOrder = Annotated[tuple[ContextKind, ...], NoDecode, BeforeValidator(_listed), AfterValidator(_each_once)]
TimeZone = Annotated[str, AfterValidator(_zone)]
AcceptsForever = BeforeValidator(_none_if_forever)  # stands after the field: a range applies to the number alone
