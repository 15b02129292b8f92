"""The possible values of settings: words, limits of numbers, and how a text from the environment is read."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, SecretStr

from memory_sql.config.shards import as_text
from memory_sql.errors import InputError
from memory_sql.languages.dates import zone_of
from memory_sql.languages.text import clean, lower_uuid
from memory_sql.privacy import Sensitivity

RETRIEVAL_DAYS = 30  # covered by `stats`
VECTORS_OBSERVATIONS = 1000  # in a scope; above this, vectors are advised if … (R124, R138)
VECTORS_MILLISECONDS = 100.0  # … searching took longer than this on average (R138)
VECTORS_WITHOUT_HIT = 0.2  # … or more than this share of searches found nothing (R124: relevance under 80 %)
OPENAI_DIMENSIONS, LOCAL_DIMENSIONS = 1536, 512
MOST_MINUTES = 5_256_000.0  # ten years
MOST_DAYS = 36_500.0
MOST_ITEMS, MOST_CHARACTERS, MOST_TOKENS = 1_000, 200_000, 400_000  # of a digest's budget
MOST_MESSAGE_CHARACTERS = 1_000_000
DEFAULT_SCHEMA = "memory"
NAME_BYTES = 63  # of a schema: Postgres would cut off longer names
MOST_READ_CHARACTERS, MOST_WORDS = 10_000_000, 100_000  # of one model call
MOST_CONTEXT_TOKENS = 10_000_000
_AROUND = string.whitespace + "\ufeff"  # around a URL
MOST_COUNTED = 1_000_000  # messages, tokens or people in a threshold
MOST_KEPT = 1_000_000_000  # items or characters of a scope
MOST_TOKENS_A_DAY = 1_000_000_000_000
MOST_NAMES, NAME_CHARACTERS, TEXT_CHARACTERS = 1_000, 255, 4_096
MOST_PHRASES = 100
CONTEXT_LEAST_TOKENS = 4  # an empty context has so many
FOREVER = "forever"  # TOML and the environment have no word for None
BUFFER_MAX_ITEMS, BUFFER_MAX_WORDS, BUFFER_MAX = 5, 30, 100  # R314, R315, R318
CONVERSATION_MAX, CONVERSATION_WORDS = 8, 50  # of a conversation's latest moments (R011, R012)
ObservationKind = Literal["fact", "note", "procedure", "episode"]
BUDGET_KINDS: tuple[str, ...] = get_args(ObservationKind)
Classification = Literal["model", "rules", "off"]
CATEGORIES: tuple[str, ...] = (  # R152
    "fact",
    "preference",
    "correction",
    "entity",
    "decision",
    "relationship",
    "principle",
    "commitment",
    "moment",
    "skill",
)
ExtraCategory = Literal["rule", "procedure", "reasoning"]  # C14
EXTRA_CATEGORIES: tuple[str, ...] = get_args(ExtraCategory)

# Configurations that every supported Postgres ships. Text, not regconfig: a regconfig column would block pg_upgrade.
LANGUAGES = (
    "arabic",
    "armenian",
    "basque",
    "catalan",
    "danish",
    "dutch",
    "english",
    "finnish",
    "french",
    "german",
    "greek",
    "hindi",
    "hungarian",
    "indonesian",
    "irish",
    "italian",
    "lithuanian",
    "nepali",
    "norwegian",
    "portuguese",
    "romanian",
    "russian",
    "serbian",
    "simple",
    "spanish",
    "swedish",
    "tamil",
    "turkish",
    "yiddish",
)

Assembly = Literal["eden", "digest", "both"]
Engine = Literal["legacy", "sql", "shadow"]
ContextFormat = Literal["standard", "legacy"]
ContextKind = Literal["collective", "agent", "guideline", "group", "entity", "individual", "conversation"]
CONTEXT_KINDS: tuple[ContextKind, ...] = get_args(ContextKind)  # what most readers share comes first
Secrets = Literal["mask", "keep", "refuse"]
Sharing = Literal["auto", "review", "off"]
SpokenRequests = Literal["hide", "review", "off"]
Deduplicate = Literal["scope", "newest", "off"]
Collective = Literal["proposed", "direct"]
ConversationScope = Literal["off", "buffer", "summary"]
ExtractionMode = Literal["batch", "isolated"]
Lane = Literal["absorb", "buffer"]
Lanes = Literal["absorb", "buffer", "both"]
LogFormat = Literal["text", "json"]
PromptName = Literal["extraction", "consolidation"]
PromptMode = Literal["guidance", "override", "base"]


def _listed(value: object) -> object:
    """From the environment or the command line: names separated by commas, or JSON."""
    if not isinstance(value, str):
        return value
    if value.startswith("["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError("not a JSON list") from None
    return [name.strip() for name in value.split(",") if name.strip()]


def _each_once(kinds: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(kinds)) < len(kinds):
        raise ValueError("a kind is listed twice")
    return kinds


def _zone(name: str) -> str:
    try:
        return zone_of(name).key
    except InputError as error:
        raise ValueError(str(error)) from None  # Pydantic reports it with the setting's name


def _none_if_forever(value: object) -> object:
    return None if value == FOREVER else value


def _cleaned(names: tuple[str, ...]) -> tuple[str, ...]:
    cleaned = tuple(clean(name)[0] for name in names)
    if len(cleaned) > MOST_NAMES or not all(1 <= len(name) <= NAME_CHARACTERS for name in cleaned):
        raise ValueError(f"at most {MOST_NAMES:,} names of 1 to {NAME_CHARACTERS} characters")
    return cleaned


def _phrases(phrases: tuple[str, ...]) -> tuple[str, ...]:
    if len(phrases) > MOST_PHRASES or not all(any(map(str.isalnum, phrase)) for phrase in phrases):
        raise ValueError(f"at most {MOST_PHRASES} phrases, each with a word")
    return phrases


def _written(ids: tuple[str, ...]) -> tuple[str, ...]:
    """The ids as they are stored."""
    return tuple(map(lower_uuid, ids))


def _schema(name: str) -> str:
    """`public` is refused because other programs keep their tables there, and `db reset` drops the whole schema."""
    if not name.isprintable() or not 1 <= len(name.encode(errors="replace")) <= NAME_BYTES:
        raise ValueError(f"must have 1 to {NAME_BYTES} bytes in UTF-8, all printable; choose a shorter or plainer name")
    if name.startswith("pg_") or name in ("information_schema", "public"):
        raise ValueError(
            "is a name that Postgres or other programs use (pg_…, information_schema, public); choose another"
        )
    return name


def _plain(value: str | Path | SecretStr | None) -> str | Path | SecretStr | None:
    text = value.get_secret_value() if isinstance(value, SecretStr) else str(value or "")
    if len(text) > TEXT_CHARACTERS:
        raise ValueError(f"at most {TEXT_CHARACTERS:,} characters")
    if clean(text)[1]:
        raise ValueError("contains characters that can't be written")
    return value


def bare(url: str) -> str:
    """Without the blanks of a secret's file, and one pair of quotes of an .env file."""
    text = url.strip(_AROUND)
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1].strip(_AROUND) if is_quoted else text


def _filled(url: SecretStr | None) -> SecretStr | None:
    if url is None:
        return None
    text = bare(url.get_secret_value())
    if not text:
        raise ValueError("it is empty; leave it out, or write postgresql://user:password@host:5432/name")
    return SecretStr(text)


def _language(name: str) -> str:
    if name not in LANGUAGES:
        raise ValueError(f"must be one of {', '.join(LANGUAGES)}")
    return name


Names = Annotated[tuple[str, ...], BeforeValidator(_listed), AfterValidator(_cleaned)]
Phrases = Annotated[Names, AfterValidator(_phrases)]
Ids = Annotated[Names, AfterValidator(_written)]  # of the host
Language = Annotated[str, AfterValidator(_language)]
SchemaName = AfterValidator(_schema)  # put after the field
Plain = AfterValidator(_plain)  # put after the field, for a text, path or URL
Filled = AfterValidator(_filled)  # put after the field, for a URL: an empty one must not mean the embedded Postgres
Shards = BeforeValidator(as_text)  # put after the field
Sensitivities = Annotated[tuple[Sensitivity, ...], BeforeValidator(_listed)]
ContextOrder = Annotated[tuple[ContextKind, ...], BeforeValidator(_listed), AfterValidator(_each_once)]
ExtraCategories = Annotated[tuple[ExtraCategory, ...], BeforeValidator(_listed), AfterValidator(_each_once)]
TimeZone = Annotated[str, AfterValidator(_zone)]
AcceptsForever = BeforeValidator(_none_if_forever)  # put after the field, so that a range applies only to the number
