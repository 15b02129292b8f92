"""The language and the embedding model that the settings name. Their modules are imported only when they are the ones."""

from __future__ import annotations

from importlib import import_module

from memory_sql.config import Settings
from memory_sql.errors import ConfigurationError
from memory_sql.llm import OwnedModel
from memory_sql.llm.embeddings import LocalEmbeddings, OwnedEmbeddings


def language_model(settings: Settings) -> OwnedModel:
    model: OwnedModel
    if settings.llm_name == "offline":
        model = import_module("memory_sql.llm.offline").Offline()
    else:
        model = import_module("memory_sql.llm.openai").OpenAI(
            api=settings.llm_api, timeout_seconds=settings.llm_timeout_seconds, max_retries=settings.llm_max_retries
        )
    return model


def embedding_model(settings: Settings) -> OwnedEmbeddings | None:
    """None: vectors are off. Raises `ConfigurationError`."""
    model: OwnedEmbeddings | None = None
    if settings.embedding == "local":
        if settings.vector_dimensions != LocalEmbeddings.dimensions:
            raise ConfigurationError(f"embedding_dimensions: the local model has {LocalEmbeddings.dimensions}")
        model = LocalEmbeddings()
    elif settings.embedding == "openai":
        model = import_module("memory_sql.llm.openai_embeddings").OpenAIEmbeddings(
            settings.embedding_model,
            settings.vector_dimensions,
            timeout_seconds=settings.llm_timeout_seconds,
            max_retries=settings.llm_max_retries,
            base_url=settings.embedding_base_url,
        )
    return model
