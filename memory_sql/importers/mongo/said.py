"""Turns the sentences of a scope's text into rows, which forgetting a sentence and rebuilding the text depend on. Pure.

A sentence that an absorbed record already says is evidence of that record's row and gets no row. A sentence is identified
by its document and its words, not its position: if a text was rewritten, only its new sentences are new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from memory_sql.importers.drafts import ObservationDraft, ScopeDraft, TextPart
from memory_sql.importers.mongo.texts import Sentence, source_hash, statements


@dataclass(slots=True)
class Said:
    """The references of the sentences by digest, equal sentences together, and the first of each."""

    _by_digest: dict[bytes, list[str]] = field(default_factory=dict)
    _in_order: list[tuple[TextPart, Sentence, list[str]]] = field(default_factory=list)
    _refs: set[str] = field(default_factory=set)

    def add(self, part: TextPart, sentence: Sentence) -> None:
        ref = sentence_ref(part, sentence.content, sentence.digest)
        if ref in self._refs:
            return
        self._refs.add(ref)
        known = None if sentence.digest is None else self._by_digest.get(sentence.digest)
        if known is not None:
            known.append(ref)
            return
        refs = [ref]
        if sentence.digest is not None:
            self._by_digest[sentence.digest] = refs
        self._in_order.append((part, sentence, refs))

    def taken(self, digest: bytes | None) -> tuple[str, ...]:
        """Takes the sentences that say the same. They get no row any more."""
        refs = self._by_digest.get(digest) if digest is not None else None
        if not refs:
            return ()
        taken = tuple(refs)
        refs.clear()
        return taken

    def left(self) -> Iterator[ObservationDraft]:
        """Rows of the remaining sentences, which no record says, in the order of the text."""
        for part, sentence, refs in self._in_order:
            if refs:
                yield _row(part, sentence, tuple(refs))


def sentence_ref(part: TextPart, content: str, digest: bytes | None) -> str:
    """The reference of a sentence: its document and 64 bits of the digest of its words."""
    digest = digest or hashlib.sha256(content.encode()).digest()
    return f"{part.legacy_ref}#{digest[:8].hex()}"


def said_by(scope: ScopeDraft) -> Said:
    said = Said()
    for part in scope.parts:
        for sentence in statements(part.content):
            said.add(part, sentence)
    return said


def _row(part: TextPart, sentence: Sentence, refs: tuple[str, ...]) -> ObservationDraft:
    collection, _, key = part.legacy_ref.partition(":")
    legacy = {"collection": collection, "id": key, "sentence": sentence.number, **part.marks}
    return ObservationDraft(
        legacy_ref=refs[0],
        content=sentence.content,
        observed_at=part.written_at,
        state="absorbed",
        lane="absorb",
        source_hash=source_hash(sentence.content),
        verification="unverified",
        metadata={"legacy": legacy if part.heading is None else {**legacy, "shard": part.heading}},
        also=refs[1:],
    )
