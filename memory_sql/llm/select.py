"""The language model that the settings name. Its module is imported only when it is the one."""

from __future__ import annotations

from importlib import import_module

from memory_sql.config import Settings
from memory_sql.llm import OwnedModel


def language_model(settings: Settings) -> OwnedModel:
    model: OwnedModel
    if settings.llm_name == "offline":
        model = import_module("memory_sql.llm.offline").Offline()
    else:
        model = import_module("memory_sql.llm.openai").OpenAI(
            api=settings.llm_api, timeout_seconds=settings.llm_timeout_seconds, max_retries=settings.llm_max_retries
        )
    return model
