"""The resolved settings, and where each value comes from."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self

from platformdirs import user_data_path
from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from memory_sql.config.fields import ADD, DIGEST, names_per_agent, names_used_by
from memory_sql.config.sections import (
    ConsolidationSettings,
    ContextSettings,
    DatabaseSettings,
    DigestSettings,
    FormationSettings,
    IntakeSettings,
    ModelSettings,
    PropagationSettings,
    RetentionSettings,
    SearchSettings,
    SwitchSettings,
    VectorSettings,
    WorkSettings,
)
from memory_sql.errors import ConfigurationError

log = logging.getLogger("memory_sql")

PREFIX = "MEMORY_SQL_"
OTHER_VARIABLES = frozenset({"CONFIG", "TEST_URL", "SEED"})  # the settings file; read by this library's tests
CONFIG_FILE = "memory-sql.toml"


class Settings(  # the last base is listed first
    SwitchSettings,
    DigestSettings,
    ContextSettings,
    SearchSettings,
    RetentionSettings,
    WorkSettings,
    PropagationSettings,
    ConsolidationSettings,
    FormationSettings,
    IntakeSettings,
    VectorSettings,
    ModelSettings,
    DatabaseSettings,
    BaseSettings,
):
    """Every setting, resolved and frozen. Those that aren't passed come from the environment, the file or the default."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid", defer_build=False)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings, env_settings, _file_source(settings_cls))

    @classmethod
    def load(cls, **given: Any) -> Self:
        """The resolved settings. Raises `ConfigurationError` naming the settings that are wrong, never their values."""
        _warn_of_unknown()
        try:
            return cls(**{name: value for name, value in given.items() if value is not None})
        except ValidationError as error:
            raise ConfigurationError(f"settings: {wrong_names(error)}") from None

    @property
    def embedded_data_dir(self) -> Path:
        return self.data_dir or user_data_path("memory-sql", appauthor=False) / "postgres"

    @property
    def llm_name(self) -> Literal["openai", "offline"] | None:
        """None: there is no model. `offline` is used only if it is set."""
        return self.llm or ("openai" if os.environ.get("OPENAI_API_KEY") else None)

    def sources(self) -> dict[str, str]:
        """Where each setting comes from: argument (or command line), environment, file or default."""
        environment = {name.lower().removeprefix(PREFIX.lower()) for name in os.environ}
        file = _file_source(type(self))()
        without = type(self).load()

        def source(name: str) -> str:
            if getattr(self, name) != getattr(without, name):
                return "argument"
            if name in environment:
                return "environment"
            return "file" if name in file else "default"

        return {name: source(name) for name in type(self).model_fields}

    def of_agent(self, own: Mapping[str, Any]) -> Self:
        """These settings with the agent's own; unknown or invalid ones are ignored."""
        usable = _usable(own) if own else {}
        return self.model_copy(update=usable) if usable else self


AGENT_SETTINGS = names_per_agent(Settings)
_own_fields: Any = {
    name: (Settings.model_fields[name].annotation, Settings.model_fields[name]) for name in AGENT_SETTINGS
}
OwnSettings: type[BaseModel] = create_model(
    "OwnSettings", __config__=ConfigDict(extra="forbid", allow_inf_nan=False), **_own_fields
)
DIGEST_SETTINGS = names_used_by(Settings, DIGEST)
FORMATION_LIMITS = names_used_by(Settings, ADD)


def sections() -> tuple[type[BaseModel], ...]:
    """The classes that declare the settings, in the order in which they are listed; each docstring is a heading."""
    return tuple(base for base in reversed(Settings.__bases__) if base is not BaseSettings)


def _usable(own: Mapping[str, Any]) -> dict[str, Any]:
    known = {name: own[name] for name in AGENT_SETTINGS if name in own}
    try:
        return OwnSettings.model_validate(known).model_dump(exclude_unset=True)
    except ValidationError as error:
        wrong = {each["loc"][0] for each in error.errors(include_input=False)}
        return _usable({name: value for name, value in known.items() if name not in wrong})


def _file_source(settings: type[BaseSettings]) -> TomlConfigSettingsSource:
    """Raises `ConfigurationError`, in one line, for a named file that doesn't exist, or a file that can't be read."""
    named = os.environ.get(f"{PREFIX}CONFIG")
    path = Path(named or CONFIG_FILE)
    if named and (path.is_dir() or not path.exists()):
        raise ConfigurationError(f"{PREFIX}CONFIG: there is no file {path}")
    try:
        return TomlConfigSettingsSource(settings, toml_file=path)
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8
        raise ConfigurationError(f"{path}: not valid TOML: {' '.join(str(error).split())}") from None


def _warn_of_unknown() -> None:
    """Warns of variables that look like a setting but aren't one, so they have no effect."""
    for name in os.environ:
        setting = name.upper().removeprefix(PREFIX)
        if name.upper().startswith(PREFIX) and setting not in OTHER_VARIABLES | _variables():
            _warn_once(name)


@cache
def _variables() -> frozenset[str]:
    return frozenset(name.upper() for name in Settings.model_fields)


@cache
def _warn_once(name: str) -> None:
    near = get_close_matches(name.upper().removeprefix(PREFIX), _variables() | OTHER_VARIABLES, 1, 0)
    log.warning("%s isn't a setting and has no effect; did you mean %s?", name, f"{PREFIX}{near[0]}")


def wrong_names(error: ValidationError) -> str:
    """The names, and what is wrong with each; never the values."""
    return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False))
