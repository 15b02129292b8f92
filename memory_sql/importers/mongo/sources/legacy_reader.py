"""Reads single documents of a live server, with the official client, as a turn of the legacy system needs them. Read-only.

A collection that has been renamed is read under both names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bson.codec_options import CodecOptions
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument
from pymongo import AsyncMongoClient
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import ConfigurationError as MongoConfigurationError
from pymongo.errors import InvalidURI, PyMongoError

from memory_sql.errors import ConfigurationError, SourceError
from memory_sql.importers.mongo.sources.decoding import from_bson
from memory_sql.importers.mongo.sources.files import BrokenError
from memory_sql.importers.mongo.sources.source import COLLECTIONS

_RAW: CodecOptions[RawBSONDocument] = CodecOptions(document_class=RawBSONDocument)
_MADE = [("createdAt", 1), ("_id", 1)]
_MADE_LAST = [("createdAt", -1), ("_id", -1)]
Document = Mapping[str, Any]
Order = Sequence[tuple[str, int]]


class MongoReader:
    """`url` must name the database unless `database` does. A server not found within `patience_seconds` counts as missing.

    Raises `ConfigurationError`, later `SourceError`.
    """

    def __init__(self, url: str, *, database: str | None = None, patience_seconds: float = 5.0) -> None:
        try:
            self._client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(
                url, serverSelectionTimeoutMS=int(patience_seconds * 1000), appname="memory-sql", retryWrites=False
            )
            self._database: AsyncDatabase[dict[str, Any]] = (
                self._client.get_default_database() if database is None else self._client[database]
            )
        except (InvalidURI, MongoConfigurationError, ValueError) as error:
            # The client's message may contain the password.
            raise ConfigurationError("the URL of MongoDB can't be read, or names no database") from error

    async def close(self) -> None:
        await self._client.close()

    async def person(self, user_id: str) -> Document | None:
        return await self._one("users3", {"_id": _key(user_id)})

    async def session(self, session_id: str) -> Document | None:
        return await self._one("sessions", {"_id": _key(session_id)})

    async def senders(self, session_id: str) -> Sequence[str]:
        wanted = {"session": _key(session_id), "role": "user"}
        found = await self._found("messages", wanted, _MADE, {"sender": 1})
        return list(dict.fromkeys(str(one["sender"]) for one in found if one.get("sender") is not None))

    async def user_memory(self, agent_id: str, user_id: str) -> Sequence[Document]:
        wanted = {"agent_id": _key(agent_id), "user_id": _key(user_id)}
        return await self._found("memory_user", wanted, [("last_updated_at", 1), ("_id", 1)])

    async def shards(self, agent_id: str) -> Sequence[Document]:
        return await self._found("memory_agent", {"agent_id": _key(agent_id), "is_active": True}, _MADE)

    async def records(self, record_ids: Sequence[str]) -> Sequence[Document]:
        return await self._found("memory_sessions", {"_id": {"$in": [_key(one) for one in record_ids]}})

    async def episodes(self, session_id: str, limit: int) -> Sequence[Document]:
        wanted = {"source_session_id": _key(session_id), "memory_type": "episode"}
        found = await self._found("memory_sessions", wanted, _MADE_LAST, limit=limit)
        return found[:limit][::-1]

    async def messages(self, session_id: str) -> Sequence[Document]:
        return await self._found("messages", {"session": _key(session_id)}, _MADE)

    async def _one(self, collection: str, wanted: Document) -> Document | None:
        found = await self._found(collection, wanted, limit=1)
        return found[0] if found else None

    async def _found(
        self, collection: str, wanted: Document, order: Order = (), fields: Document | None = None, *, limit: int = 0
    ) -> list[Document]:
        """Reads the newest name first. Documents under an older name come after the others."""
        found: list[Document] = []
        for name in reversed(COLLECTIONS[collection]):
            try:
                cursor = self._collection(name).find(wanted, fields, limit=limit)
                found += [from_bson(bytes(raw.raw)) async for raw in (cursor.sort(order) if order else cursor)]
            except PyMongoError as error:
                # The client's message may contain addresses, credentials or documents.
                raise SourceError(name, 0, f"the server gave no answer ({type(error).__name__})") from error
            except BrokenError as error:
                raise SourceError(name, 0, error.reason) from error
        return found

    def _collection(self, name: str) -> AsyncCollection[RawBSONDocument]:
        return self._database.get_collection(name, _RAW)  # type: ignore[return-value]


def _key(value: str) -> Any:
    """The id as the server stores it. A value that can't be an id matches nothing."""
    return ObjectId(value) if ObjectId.is_valid(value) else value
