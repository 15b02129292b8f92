"""A live server, read with the official client, ordered by `_id` and in batches. No command that writes is ever sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from bson import json_util
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import AsyncMongoClient
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import ConfigurationError as MongoConfigurationError
from pymongo.errors import InvalidURI, PyMongoError
from pymongo.read_concern import ReadConcern

from memory_sql.errors import ConfigurationError, SourceError
from memory_sql.importers.mongo.sources.decoding import from_bson
from memory_sql.importers.mongo.sources.files import BrokenError
from memory_sql.importers.mongo.sources.source import (
    Damaged,
    Found,
    Part,
    Place,
    Read,
    given_out,
    in_order,
    known_names,
)

_RAW: CodecOptions[RawBSONDocument] = CodecOptions(document_class=RawBSONDocument)
_BATCH = 1000
# The order in which a server sorts types. A comparison only matches values of the same type.
_ORDER = (
    ("null",),
    ("int", "long", "double", "decimal"),
    ("string",),
    ("object",),
    ("array",),
    ("binData",),
    ("objectId",),
    ("bool",),
    ("date",),
    ("timestamp",),
    ("regex",),
)


class LiveSource:
    """`url` must name the database unless `database` does. Collections are read in the order of `_id`."""

    def __init__(
        self,
        url: str,
        *,
        database: str | None = None,
        names: Mapping[str, str] | None = None,
        keep_going: bool = False,
        batch: int = _BATCH,
    ) -> None:
        try:
            self._client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(
                url, appname="memory-sql import", retryWrites=False
            )
            self._database: AsyncDatabase[dict[str, Any]] = (
                self._client.get_default_database() if database is None else self._client[database]
            )
        except (InvalidURI, MongoConfigurationError, ValueError) as error:
            # The client's message may contain the password.
            raise ConfigurationError("the URL of MongoDB can't be read, or names no database") from error
        self.position = 0
        self._names, self._keep_going, self._batch = known_names(names or {}), keep_going, batch

    @property
    def name(self) -> str:
        return self._database.name

    async def parts(self) -> tuple[Part, ...]:
        try:
            found = await self._database.list_collection_names(filter={"type": "collection"})
            counted = [
                Part(self._names[name], name, documents=await self._database[name].estimated_document_count())
                for name in sorted(found)
                if name in self._names
            ]
        except PyMongoError as error:
            raise SourceError(self.name, 0, _said(error)) from error
        return in_order(iter(counted))

    async def read(self, part: Part, after: str | None = None) -> AsyncIterator[Read]:
        collection: AsyncCollection[RawBSONDocument] = self._database.get_collection(
            part.name, _RAW, read_concern=ReadConcern("local")
        )  # type: ignore[assignment]
        number, cursor = 0, after
        try:
            async for raw in _found(collection, after, self._batch):
                self.position = number = number + 1
                item = _read(raw, part.name, number)
                cursor = item.place.cursor
                yield item if isinstance(item, Found) else given_out(item, keep_going=self._keep_going)
        except PyMongoError as error:
            place = Place(part.name, number + 1, 0, cursor or "")
            failed = SourceError(part.name, 0, _said(error))
            failed.__cause__ = error
            yield given_out(Damaged(place, failed, ends_part=True), keep_going=self._keep_going)

    async def close(self) -> None:
        await self._client.close()


def _found(
    collection: AsyncCollection[RawBSONDocument], after: str | None, batch: int
) -> AsyncIterator[RawBSONDocument]:
    return collection.find(_behind(after)).sort("_id", 1).batch_size(batch)


def _behind(after: str | None) -> dict[str, Any]:
    """Matches documents with a later `_id`, of any type."""
    if after is None:
        return {}
    key = json_util.loads(after)["_id"]
    later = [name for group in _ORDER[_rank(key) + 1 :] for name in group]
    return {"$or": [{"_id": {"$gt": key}}, {"_id": {"$type": later}}]}


def _rank(key: Any) -> int:
    names = {
        "NoneType": "null", "int": "int", "Int64": "long", "float": "double", "Decimal128": "decimal", "str": "string",
        "dict": "object", "bytes": "binData", "Binary": "binData", "UUID": "binData", "ObjectId": "objectId",
        "bool": "bool", "datetime": "date", "DatetimeMS": "date", "Timestamp": "timestamp", "Regex": "regex",
    }  # fmt: skip
    name = names[type(key).__name__]
    return next(rank for rank, group in enumerate(_ORDER) if name in group)


def _read(raw: RawBSONDocument, name: str, number: int) -> Read:
    try:
        place = Place(name, number, 0, json_util.dumps({"_id": raw["_id"]}))
    except (ValueError, TypeError, KeyError) as error:
        place = Place(name, number, 0, "")
        failed = SourceError(name, 0, f"document {number:,} has no readable _id")
        failed.__cause__ = error
        return Damaged(place, failed)
    try:
        return Found(place, from_bson(bytes(raw.raw)))
    except BrokenError as broken:
        failed = SourceError(name, 0, f"document {number:,}: {broken.reason}")
        failed.__cause__ = broken
        return Damaged(place, failed)


def _said(error: PyMongoError) -> str:
    """Names the error without its message, which may contain addresses, credentials or documents."""
    return f"the server gave no answer that could be used ({type(error).__name__})"
