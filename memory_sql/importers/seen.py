"""What an agent already has from a source, and what of it was forgotten here. Neither is imported again."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from memory_sql.db.repositories.imported_messages import ImportedMessageRepository
from memory_sql.db.repositories.imports import ImportRepository
from memory_sql.importers.gone import Gone

Reason = Literal["known", "forgotten", "stored"]
"""`known`: another import brought it.

`forgotten`: it was forgotten here. `stored`: this import brought it before it was interrupted.
"""


@dataclass(slots=True)
class Seen:
    """Looks up references of one agent. `is_new`: the agent has nothing to look up. `key` hashes the references.

    `dropped`: what isn't imported because of whom it is, who is `gone`.
    """

    imports: ImportRepository
    agent_key: int
    import_id: int | None
    key: bytes
    is_new: bool = False
    is_resumed: bool = False
    has_messages: bool = False
    gone: Gone = field(default_factory=Gone)
    dropped: set[str] = field(default_factory=set)
    _fresh: set[str] = field(default_factory=set)

    @classmethod
    async def of(cls, imports: ImportRepository, agent_key: int, import_id: int | None, key: bytes) -> Seen:
        by, forgets = await imports.before(agent_key)
        return cls(imports, agent_key, import_id, key, is_new=not by and not forgets, is_resumed=import_id in by)

    def ref(self, ref: str) -> bytes:
        return hmac.digest(self.key, ref.encode(), "sha256")

    async def left_out(self, refs: Iterable[str]) -> dict[str, Reason]:
        """The references that aren't imported. If a text was forgotten, none of its sentences is."""
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
        """The same for messages."""
        asked = {self.ref(ref): ref for ref in refs}
        if self.is_new or not asked:
            return {}
        known = await ImportedMessageRepository(self.imports.session, self.agent_key).by(list(asked))
        gone = await self._forgotten(list(asked.values()))
        found = {ref: self._reason(ref, known.get(hashed, ()), gone) for hashed, ref in asked.items()}
        return {ref: reason for ref, reason in found.items() if reason is not None}

    async def _forgotten(self, refs: Sequence[str]) -> set[str]:
        hashes = {self.ref(ref): ref for ref in {*refs, *map(whole, refs)}}
        found = await self.imports.forgotten_among(self.agent_key, list(hashes))
        return {hashes[ref] for ref in found} | self.dropped.intersection(hashes.values())

    def bring(self, ref: str) -> None:
        """Notes, in a resumed import, that the reference comes now: it may come to several scopes."""
        if self.is_resumed:
            self._fresh.add(ref)


def whole(ref: str) -> str:
    """The document that a sentence belongs to; any other reference unchanged."""
    return ref.partition("#")[0]


def counted(left: Mapping[str, Reason]) -> dict[str, Reason]:
    """What the accounts name. What this import itself brought isn't counted as left out."""
    return {ref: reason for ref, reason in left.items() if reason != "stored"}
