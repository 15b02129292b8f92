"""A configuration of mem0: what of it can be honoured here."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

from memory_sql.config import Settings
from memory_sql.errors import ConfigurationError
from memory_sql.later import later
from memory_sql.llm import OwnedModel
from memory_sql.llm.embeddings import OwnedEmbeddings

if TYPE_CHECKING:
    from memory_sql.llm import openai, openai_embeddings
else:
    openai = later("memory_sql.llm.openai")
    openai_embeddings = later("memory_sql.llm.openai_embeddings")

PLACE = ("connection_string", "user", "password", "host", "port", "dbname", "sslmode")
MODEL = ("model", "api_key", "openai_base_url", "temperature", "max_tokens", "reasoning_effort")
EMBEDDER = ("model", "api_key", "openai_base_url", "embedding_dims")


class Configured(NamedTuple):
    """The arguments of `Memory`, and the models that are closed with it."""

    url: str | None = None
    settings: Settings | None = None
    llm: OwnedModel | None = None
    embeddings: OwnedEmbeddings | None = None

    @property
    def arguments(self) -> tuple[str | None, OwnedModel | None, Settings | None]:
        """Those that go by position."""
        return self.url, self.llm, self.settings

    async def close(self) -> None:
        for model in (self.llm, self.embeddings):
            if model is not None:
                await model.close()


def configured(given: Any) -> Configured:
    """Warns of what is left out, by name. Raises `ConfigurationError` for a store or model that there is none of here."""
    config = _mapping(given)
    ignored = set(config.keys() - {"vector_store", "llm", "embedder"})
    store = _part(config, "vector_store", ("pgvector",), PLACE, ignored)
    model = _part(config, "llm", ("openai",), MODEL, ignored)
    embedder = _part(config, "embedder", ("openai",), EMBEDDER, ignored)
    if ignored:
        left = ", ".join(sorted(ignored))
        warnings.warn(f"left out of mem0's configuration, because there is none of it here: {left}", stacklevel=4)
    named = {"fast_model": model["model"], "slow_model": model["model"]} if model.get("model") else {}
    return Configured(
        _url(store),
        Settings.load(**named),
        _llm(model) if "llm" in config else None,
        _embeddings(embedder) if "embedder" in config else None,
    )


def _mapping(given: Any) -> Mapping[str, Any]:
    dump = getattr(given, "model_dump", None)
    config = dump(exclude_unset=True) if callable(dump) else given
    if not isinstance(config, Mapping):
        raise ConfigurationError("the configuration must be a mapping, as mem0 takes it")
    return config


def _part(
    config: Mapping[str, Any], name: str, providers: tuple[str, ...], taken: tuple[str, ...], ignored: set[str]
) -> dict[str, Any]:
    """What is taken of a part; the rest is added to what is ignored."""
    part = config.get(name)
    if part is None:
        return {}
    if not isinstance(part, Mapping) or part.get("provider") not in providers:
        raise ConfigurationError(f"{name}: its provider must be {' or '.join(providers)}; {_INSTEAD[name]}")
    own = {key: value for key, value in (part.get("config") or {}).items() if value is not None}
    ignored |= {f"{name}.{key}" for key in own.keys() - set(taken)}
    return {key: own[key] for key in taken if key in own}


_INSTEAD = {
    "vector_store": "memory is in Postgres alone: leave it out for MEMORY_SQL_URL, or the embedded Postgres",
    "llm": "leave it out for MEMORY_SQL_LLM, or name openai with the openai_base_url of a compatible server",
    "embedder": "leave it out for MEMORY_SQL_EMBEDDING",
}


def _url(store: Mapping[str, Any]) -> str | None:
    if not store or "connection_string" in store:
        return store.get("connection_string")
    user, password = (quote(str(store.get(name, "")), safe="") for name in ("user", "password"))
    who = f"{user}:{password}@" if user else ""
    host, port = str(store.get("host", "localhost")), store.get("port", 5432)
    options = {"sslmode": store["sslmode"]} if "sslmode" in store else {}
    if host.startswith("/"):  # the directory of a socket
        host, options = "", {**options, "host": host}
    elif ":" in host:
        host = f"[{host.strip('[]')}]"
    name = quote(str(store.get("dbname", "postgres")), safe="")
    return f"postgresql://{who}{host}:{port}/{name}{'?' if options else ''}{urlencode(options, safe='/')}"


def _llm(model: Mapping[str, Any]) -> OwnedModel:
    return openai.OpenAI(
        base_url=model.get("openai_base_url"),
        api_key=model.get("api_key"),
        temperature=model.get("temperature"),
        max_tokens=model.get("max_tokens"),
        reasoning_effort=model.get("reasoning_effort"),
    )


def _embeddings(embedder: Mapping[str, Any]) -> OwnedEmbeddings:
    return openai_embeddings.OpenAIEmbeddings(
        embedder.get("model", "text-embedding-3-small"),
        embedder.get("embedding_dims", 1536),
        base_url=embedder.get("openai_base_url"),
        api_key=embedder.get("api_key"),
    )
