"""What an agent has of a source already, and what was forgotten of it: neither comes again, wherever it is here by now."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from memory_sql.db.repositories.imported_messages import ImportedMessageRepository
from memory_sql.db.repositories.imports import ImportRepository

Reason = Literal["known", "forgotten", "stored"]
"""Another import has brought it, it was forgotten here, or this import has brought it before it was broken off."""


@dataclass(slots=True)
class Seen:
    """Of one agent, as an import finds it. `is_new`: there is nothing to ask for. `key` is that of references."""

    imports: ImportRepository
    agent_key: int
    import_id: int | None
    key: bytes
    is_new: bool = False
    is_resumed: bool = False
    has_messages: bool = False
    _fresh: set[str] = field(default_factory=set)

    @classmethod
    async def of(cls, imports: ImportRepository, agent_key: int, import_id: int | None, key: bytes) -> Seen:
        by, forgets = await imports.before(agent_key)
        return cls(imports, agent_key, import_id, key, is_new=not by and not forgets, is_resumed=import_id in by)

    def ref(self, ref: str) -> bytes:
        return hmac.digest(self.key, ref.encode(), "sha256")

    async def left_out(self, refs: Iterable[str]) -> dict[str, Reason]:
        """Those of these references that don't come. Of a text that was forgotten no sentence does."""
        asked = list(dict.fromkeys(refs))
        if self.is_new or not asked:
            return {}
        known = await self.imports.known(self.agent_key, asked)
        gone = await self._forgotten(asked)
        found = {ref: self._reason(ref, known.get(ref, ()), gone) for ref in asked}
        return {ref: reason for ref, reason in found.items() if reason is not None}

    def _reason(self, ref: str, by: Sequence[int], gone: set[str]) -> Reason | None:
        if ref in gone or whole(ref) in gone:
            return "forgotten"
        if any(import_id != self.import_id for import_id in by):
            return "known"
        return "stored" if by and self.is_resumed and ref not in self._fresh else None

    async def messages_left_out(self, refs: Iterable[str]) -> dict[str, Reason]:
        """The same of messages."""
        asked = {self.ref(ref): ref for ref in refs}
        if self.is_new or not asked:
            return {}
        known = await ImportedMessageRepository(self.imports.session, self.agent_key).by(list(asked))
        gone = await self._forgotten(list(asked.values()))
        found = {ref: self._reason(ref, known.get(hashed, ()), gone) for hashed, ref in asked.items()}
        return {ref: reason for ref, reason in found.items() if reason is not None}

    async def _forgotten(self, refs: Sequence[str]) -> set[str]:
        hashes = {self.ref(ref): ref for ref in {*refs, *map(whole, refs)}}
        return {hashes[found] for found in await self.imports.forgotten_among(self.agent_key, list(hashes))}

    def bring(self, ref: str) -> None:
        """Of an import that goes on: what comes now may come to several scopes."""
        if self.is_resumed:
            self._fresh.add(ref)


def whole(ref: str) -> str:
    """The document of a sentence; of another reference itself."""
    return ref.partition("#")[0]


def counted(left: Mapping[str, Reason]) -> dict[str, Reason]:
    """What the accounts name; what this import has brought itself is one of its own."""
    return {ref: reason for ref, reason in left.items() if reason != "stored"}
