"""Turns a row of a plan into a row to be staged.

Whatever is derived from its text, as for any stored text, is computed here. Pure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any, NamedTuple

from memory_sql.importers.drafts import DuplicateDraft, ObservationDraft, RowDraft, ScopeDraft, State
from memory_sql.languages.dates import days_of
from memory_sql.languages.text import content_digest
from memory_sql.languages.words import search_extra
from memory_sql.privacy.classify import classify

Ref = Callable[[str], bytes]
"""Hashes a reference."""


@dataclass(slots=True)
class Filling:
    """A scope that is being filled. `is_begun`: it had content before, so the database numbers the new rows.

    `is_told`: its text is imported. Otherwise what the text absorbed waits for the next one. `absorbed` and `repeated`
    are counts.
    """

    scope_id: int
    is_begun: bool
    is_told: bool
    last: int = 0
    absorbed: int = 0
    repeated: int = 0

    def take(self, state: State) -> tuple[State, int | None]:
        """The state in which the next row is stored, and its number."""
        if state == "absorbed" and not self.is_told:
            state = "pending"
        self.absorbed += state == "absorbed"
        self.last += 1
        return state, None if self.is_begun else self.last


class Staged(NamedTuple):
    """The columns of `STAGED` after its place, in order. The defaults are those of a row that repeats another.

    An empty list is None, because the driver takes longer for a list than for a text.
    """

    scope_id: int
    legacy_ref: str
    of_ref: str | None
    content: str | None = None
    observed_at: Any = None
    given_at: Any = None
    conversation_id: str | None = None
    message_ids: tuple[str, ...] | None = None
    users: tuple[str, ...] | None = None
    lane: str | None = None
    state: str | None = None
    verification: str | None = None
    sensitivity: str | None = None
    categories: tuple[str, ...] | None = None
    metadata: str | None = None
    digest: bytes | None = None
    search_extra: str | None = None
    dates: str | None = None
    source_hash: bytes | None = None
    stored_hash: bytes | None = None
    ref_hash: bytes | None = None
    also: tuple[str, ...] | None = None
    also_hashes: list[bytes] | None = None
    seq: int | None = None


def observation(draft: ScopeDraft, place: Filling, row: ObservationDraft, zone: tzinfo, ref: Ref) -> Staged:
    """`zone`: the agent's time zone, in which days are meant."""
    state, seq = place.take(row.state)
    content, extra, dates = row.content, search_extra(row.content), None
    found, days = classify(content, is_plain=row.is_plain), days_of(content, row.observed_at, zone)
    if days:
        beside = dict.fromkeys(f"{day}" for span in days for day in span)
        extra = " ".join((extra, *beside) if extra else beside)
        dates = f"{{{','.join(f'[{span.first},{span.last}]' for span in days)}}}"
    return Staged(
        scope_id=place.scope_id,
        legacy_ref=row.legacy_ref,
        of_ref=None,
        content=content,
        observed_at=row.observed_at,
        given_at=row.given_at,
        conversation_id=row.conversation_id,
        message_ids=row.message_ids or None,
        users=_people(draft, row),
        lane=row.lane,
        state=state,
        verification=row.verification,
        sensitivity=found.sensitivity,
        categories=found.categories or None,
        metadata=json.dumps(dict(row.metadata)),
        digest=row.digest or content_digest(content),
        search_extra=extra,
        dates=dates,
        source_hash=row.source_hash,
        stored_hash=sha256(content),
        ref_hash=ref(row.legacy_ref),
        also=row.also or None,
        also_hashes=[ref(other) for other in row.also] or None,
        seq=seq,
    )


def duplicate(draft: ScopeDraft, place: Filling, row: DuplicateDraft, ref: Ref) -> Staged:
    place.repeated += 1
    return Staged(
        place.scope_id,
        row.legacy_ref,
        row.of,
        users=_people(draft, row),
        source_hash=row.source_hash,
        stored_hash=row.source_hash,
        ref_hash=ref(row.legacy_ref),
    )


def sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _people(draft: ScopeDraft, row: RowDraft) -> tuple[str, ...]:
    """Who said it. A row of a user's own scope that names nobody was said by that user."""
    if row.related_users or draft.kind != "individual" or draft.owner_id is None:
        return row.related_users
    return (draft.owner_id,)
