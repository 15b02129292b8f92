"""Makes the language model and the embedding model that the settings name, from a table of each.

A model's module is imported only if the model is used.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from memory_sql.config import OPENAI_DIMENSIONS, Settings
from memory_sql.errors import ConfigurationError
from memory_sql.llm import OwnedModel
from memory_sql.llm.dialect import Notes
from memory_sql.llm.embeddings import ENCODER, LocalEmbeddings, OwnedEmbeddings

_NONE = "there is no language model"
_WAYS = (
    "set OPENAI_API_KEY, or MEMORY_SQL_LLM=openai for a server without keys,"
    " or MEMORY_SQL_LLM=offline for rules that only quote"
)
NO_MODEL = f"{_NONE}: {_WAYS}"
NO_MODEL_AND_WAITING = f"{_NONE}, and messages wait: {_WAYS}"  # for who has counted them


def language_model(settings: Settings, notes: Notes | None = None) -> OwnedModel:
    """`notes`: where it is kept what servers take. Raises `ConfigurationError`."""
    if settings.llm_name is None:
        raise ConfigurationError(NO_MODEL)
    return LANGUAGE_MODELS[settings.llm_name](settings, notes)


def embedding_model(settings: Settings) -> OwnedEmbeddings | None:
    """None: vectors are off. Raises `ConfigurationError`."""
    return EMBEDDING_MODELS[settings.embedding](settings)


def _module(name: str) -> Any:
    return import_module(f"memory_sql.llm.{name}")


def _offline(_settings: Settings, _notes: Notes | None) -> OwnedModel:
    model: OwnedModel = _module("offline").Offline()
    return model


def _openai(settings: Settings, notes: Notes | None) -> OwnedModel:
    model: OwnedModel = _module("openai").OpenAI(
        api=None if settings.llm_api == "auto" else settings.llm_api,
        output=None if settings.llm_output == "auto" else settings.llm_output,
        timeout_seconds=settings.llm_timeout_seconds,
        max_retries=settings.llm_max_retries,
        azure=settings.llm_name == "azure",
        temperature=settings.llm_temperature,
        seed=settings.llm_seed,
        reasoning_effort=settings.llm_reasoning_effort,
        max_tokens=settings.llm_max_tokens,
        notes=notes,
    )
    return model


def _local_embeddings(_settings: Settings) -> OwnedEmbeddings:
    return LocalEmbeddings()


def _local_if_installed(settings: Settings) -> OwnedEmbeddings | None:
    return _local_embeddings(settings) if find_spec(ENCODER) else None


def _openai_embeddings(settings: Settings) -> OwnedEmbeddings:
    model: OwnedEmbeddings = _module("openai_embeddings").OpenAIEmbeddings(
        settings.embedding_model,
        settings.embedding_dimensions or OPENAI_DIMENSIONS,
        timeout_seconds=settings.llm_timeout_seconds,
        max_retries=settings.llm_max_retries,
        base_url=settings.embedding_base_url,
    )
    return model


LANGUAGE_MODELS: dict[str, Callable[[Settings, Notes | None], OwnedModel]] = {
    "azure": _openai,
    "offline": _offline,
    "openai": _openai,
}
EMBEDDING_MODELS: dict[str, Callable[[Settings], OwnedEmbeddings | None]] = {
    "auto": _local_if_installed,
    "off": lambda _settings: None,
    "local": _local_embeddings,
    "openai": _openai_embeddings,
}
