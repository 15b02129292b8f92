"""Opens the source of a given kind. Its module is imported only then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from memory_sql.errors import ConfigurationError
from memory_sql.importers.mongo.sources.source import Source

SourceKind = Literal["dump", "export", "live"]
_NO_DRIVER = "reading legacy memory needs pymongo: pip install 'memory-sql[mongo]'"


def open_source(
    kind: SourceKind, where: str, *, names: Mapping[str, str] | None = None, keep_going: bool = False
) -> Source:
    """Opens a folder of mongodump or mongoexport, or a URL that names a database. Call `close` on it.

    `names` gives the collection of files or collections with other names. Raises `ConfigurationError` and `SourceError`.
    """
    return _SOURCES[kind](where, names or {}, keep_going)


def _dump(where: str, names: Mapping[str, str], keep_going: bool) -> Source:
    source: Source = _module("dump").DumpSource(Path(where), names=names, keep_going=keep_going)
    return source


def _export(where: str, names: Mapping[str, str], keep_going: bool) -> Source:
    source: Source = _module("extended_json").ExtendedJsonSource(Path(where), names=names, keep_going=keep_going)
    return source


def _live(where: str, names: Mapping[str, str], keep_going: bool) -> Source:
    source: Source = _module("live").LiveSource(where, names=names, keep_going=keep_going)
    return source


def _module(name: str) -> Any:
    try:
        return import_module(f"memory_sql.importers.mongo.sources.{name}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("pymongo", "bson"):
            raise
        raise ConfigurationError(_NO_DRIVER) from error


_SOURCES: Mapping[SourceKind, Callable[[str, Mapping[str, str], bool], Source]] = {
    "dump": _dump,
    "export": _export,
    "live": _live,
}
