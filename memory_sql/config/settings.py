"""The resolved settings, and the source of each value."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError, create_model, model_validator

from memory_sql.config import environment
from memory_sql.config.environment import PREFIX
from memory_sql.config.fields import ADD, DIGEST, names_per_agent, names_used_by
from memory_sql.config.sections import (
    ConsolidationSettings,
    ContextSettings,
    DatabaseSettings,
    DigestSettings,
    EpisodeSettings,
    FormationSettings,
    IntakeSettings,
    LifecycleSettings,
    ModelSettings,
    PropagationSettings,
    RetentionSettings,
    SearchSettings,
    SwitchSettings,
    VectorSettings,
    WorkSettings,
)
from memory_sql.errors import ConfigurationError
from memory_sql.later import later

if TYPE_CHECKING:
    import difflib

    import platformdirs
else:
    difflib = later("difflib")
    platformdirs = later("platformdirs")

CONFIG_FILE = "memory-sql.toml"


class Settings(  # in lists, the last base comes first
    SwitchSettings,
    DigestSettings,
    ContextSettings,
    SearchSettings,
    EpisodeSettings,
    LifecycleSettings,
    RetentionSettings,
    WorkSettings,
    PropagationSettings,
    ConsolidationSettings,
    FormationSettings,
    IntakeSettings,
    VectorSettings,
    ModelSettings,
    DatabaseSettings,
):
    """Every setting, resolved and frozen. Those that aren't passed come from the environment, the file or the default."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, defer_build=False, hide_input_in_errors=True
    )

    if not TYPE_CHECKING:  # the checkers know the parameters from the fields

        def __init__(self, **given: Any) -> None:
            try:
                super().__init__(**given)
            except ValidationError as error:
                raise ConfigurationError(f"settings: {wrong_names(error)}") from None

    @model_validator(mode="before")
    @classmethod
    def _resolved(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        environment.warn_of_unknown(cls.model_fields)
        return {**_file(), **environment.given(cls.model_fields), **given}

    @classmethod
    def load(cls, **given: Any) -> Self:
        """As `Settings(…)`, without what is None.

        Both raise `ConfigurationError` naming the settings that are wrong, never their values.
        """
        return cls(**{name: value for name, value in given.items() if value is not None})

    @property
    def embedded_data_dir(self) -> Path:
        return self.data_dir or platformdirs.user_data_path("memory-sql", appauthor=False) / "postgres"

    @property
    def is_embedded_by_default(self) -> bool:
        """Whether nothing names a database: no URL, no shards, and no directory."""
        return self.url is None and self.data_dir is None and self.shards is None

    @property
    def llm_name(self) -> Literal["openai", "azure", "offline"] | None:
        """None: there is none. Rules take its place only if somebody asks for them."""
        return self.llm or ("openai" if os.environ.get("OPENAI_API_KEY") else None)

    def sources(self) -> dict[str, str]:
        """The source of each setting: argument (or command line), environment, file or default."""
        variables, file = environment.given(type(self).model_fields), _file()
        without = type(self).load()

        def source(name: str) -> str:
            if getattr(self, name) != getattr(without, name):
                return "argument"
            if name in variables:
                return "environment"
            return "file" if name in file else "default"

        return {name: source(name) for name in type(self).model_fields}

    def of_agent(self, own: Mapping[str, Any]) -> Self:
        """These settings with the agent's own. Unknown and unusable values are ignored."""
        usable = _usable(own) if own else {}
        return self.model_copy(update=usable) if usable else self


AGENT_SETTINGS = names_per_agent(Settings)
DIGEST_SETTINGS = names_used_by(Settings, DIGEST)
FORMATION_LIMITS = names_used_by(Settings, ADD)


@cache
def own_settings() -> type[BaseModel]:
    """What an agent may have of its own; made when the first one has something."""
    fields: Any = {
        name: (Settings.model_fields[name].annotation, Settings.model_fields[name]) for name in AGENT_SETTINGS
    }
    return create_model("OwnSettings", __config__=ConfigDict(extra="forbid", allow_inf_nan=False), **fields)


def sections() -> tuple[type[BaseModel], ...]:
    """The classes that hold the settings, in the order in which they are listed. Each docstring is a heading."""
    return tuple(reversed(Settings.__bases__))


def _usable(own: Mapping[str, Any]) -> dict[str, Any]:
    known = {name: own[name] for name in AGENT_SETTINGS if name in own}
    try:
        return own_settings().model_validate(known).model_dump(exclude_unset=True)
    except ValidationError as error:
        wrong = {each["loc"][0] for each in error.errors(include_input=False)}
        return _usable({name: value for name, value in known.items() if name not in wrong})


def _file() -> dict[str, Any]:
    """Raises `ConfigurationError` in one line if the named file doesn't exist or can't be read."""
    named = environment.named_file()
    path = Path(named or CONFIG_FILE).expanduser()
    if named and (path.is_dir() or not path.exists()):
        raise ConfigurationError(f"{PREFIX}CONFIG: there is no file {path}")
    try:
        found = tomllib.loads(path.read_bytes().decode("utf-8-sig")) if path.is_file() else {}
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # not TOML or not UTF-8
        raise ConfigurationError(f"{path}: not valid TOML: {' '.join(str(error).split())}") from None
    _refuse_tables(path, found)
    return found


def _refuse_tables(path: Path, found: Mapping[str, Any]) -> None:
    """Settings have no sections; only shards may be written as a table."""
    for name, value in found.items():
        is_table = isinstance(value, dict) or (isinstance(value, list) and any(isinstance(one, dict) for one in value))
        if is_table and name != "shards":
            named = "takes no table" if name in Settings.model_fields else "is no setting but a table"
            raise ConfigurationError(
                f"{path}: {name} {named}; write settings as name = value, without a heading in brackets above them"
            )


def wrong_names(error: ValidationError, of: type[BaseModel] | None = None) -> str:
    """The names and what is wrong with them, never the values. `of`: whose settings they are; None: the process's."""
    known = (of or Settings).model_fields
    return "; ".join(
        _wrong(e["type"], ".".join(map(str, e["loc"])), e["msg"], known) for e in error.errors(include_input=False)
    )


def _wrong(kind: str, name: str, said: str, known: Iterable[str]) -> str:
    if kind != "extra_forbidden":
        return f"{name}: {said}"
    written = name.lower().replace("-", "_").removeprefix(PREFIX.lower())  # as a variable or an option is
    near = difflib.get_close_matches(written, known, 1)
    return f"{name}: there is no such setting" + (f"; did you mean {near[0]}?" if near else "")
