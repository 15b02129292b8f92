"""What `Memory(…)` is made with: refused there, and not by whoever needs it later."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from memory_sql.config import Settings
from memory_sql.errors import InputError
from memory_sql.llm import LanguageModel
from memory_sql.llm.embeddings import EmbeddingModel

_NO_MODEL = "{} must be an object with {}() (docs/{}.md), not {}; a model's name is set by {} in the settings"


def settings_with(
    settings: Settings | None,
    llm: LanguageModel | None,
    embeddings: EmbeddingModel | None,
    clock: Callable[[], datetime] | None,
) -> Settings:
    """The settings, else those of the environment and the file, once the others can be used. Raises `InputError`."""
    if not isinstance(settings, Settings | None):
        raise InputError(f"settings must be Settings, not {type(settings).__name__}: write Settings(pool_size=5)")
    if llm is not None and not _has(llm, "generate"):
        raise InputError(_NO_MODEL.format("llm", "generate", "models", _named(llm), "llm and slow_model"))
    if embeddings is not None and not _has(embeddings, "embed", "name", "dimensions"):
        raise InputError(
            _NO_MODEL.format("embeddings", "embed", "vectors", _named(embeddings), "embedding and embedding_model")
        )
    if clock is not None and not callable(clock):
        raise InputError(f"clock must be a function that returns the time, not {type(clock).__name__}")
    return settings or Settings.load()


def _has(given: object, method: str, *attributes: str) -> bool:
    """Asks the class first: a property may load a model."""
    known = all(hasattr(type(given), name) or hasattr(given, name) for name in attributes)
    return known and not isinstance(given, type) and callable(getattr(given, method, None))


def _named(given: object) -> str:
    return f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
