"""Compares two versions of a scope's text: their sentences, and the observations that only one of them absorbed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from difflib import SequenceMatcher
from typing import Any

from memory_sql.db import Session
from memory_sql.db.repositories.consolidations import ConsolidationRepository, Span
from memory_sql.domain.ids import observation_id
from memory_sql.domain.scopes import Diff, Sentence
from memory_sql.errors import NotFoundError
from memory_sql.languages.text import sentences


async def between(
    session: Session,
    principal: Mapping[str, Any],
    scope_id: int,
    from_version: int | datetime | None,
    to_version: int | datetime | None,
) -> Diff:
    """See `Memory.diff`. Raises `NotFoundError`."""
    versions = ConsolidationRepository(session)
    history = await versions.spans(principal, scope_id)
    if history is None:
        raise NotFoundError("text of scope", f"s{scope_id}")
    named = [
        await versions.version_at(history, version) if isinstance(version, datetime) else version
        for version in (from_version, to_version)
    ]
    first, last = chosen(history.spans, *named)
    texts = {0: ""} | await versions.contents(history, [first, last])
    for version in {first, last} - texts.keys():
        raise NotFoundError(f"text of scope s{scope_id} of version", str(version))
    gained, lost = only_in(history.spans, last, first), only_in(history.spans, first, last)
    return Diff(
        scope=history.scope,
        from_version=first,
        to_version=last,
        sentences=compare(texts[first], texts[last]),
        absorbed=tuple(observation_id(scope_id, seq) for seq in await versions.absorbed(history, gained)),
        given_back=tuple(observation_id(scope_id, seq) for seq in await versions.absorbed(history, lost)),
    )


def chosen(spans: Sequence[Span], from_version: int | None, to_version: int | None) -> tuple[int, int]:
    """The versions to compare. By default the newest, and the one before it or 0 (no text)."""
    numbers = [0, *sorted(span.version for span in spans)]
    last = numbers[-1] if to_version is None else to_version
    first = max((n for n in numbers if n < last), default=0) if from_version is None else from_version
    return first, last


def compare(before: str, after: str) -> tuple[Sentence, ...]:
    """Every sentence of both texts, in order. Where sentences were rewritten, the old ones come first."""
    old, new = sentences(before), sentences(after)
    found: list[Sentence] = []
    for what, i, j, k, n in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what == "equal":
            found += [Sentence(change="kept", text=text) for text in old[i:j]]
        else:
            found += [Sentence(change="removed", text=text) for text in old[i:j]]
            found += [Sentence(change="added", text=text) for text in new[k:n]]
    return tuple(found)


def only_in(spans: Sequence[Span], version: int, other: int) -> list[Span]:
    """The versions in this one's ancestry, itself included, that aren't in the other's."""
    by_version = {span.version: span for span in spans}
    theirs = _ancestry(by_version, other)
    return [by_version[number] for number in _ancestry(by_version, version) if number not in theirs]


def _ancestry(by_version: dict[int, Span], version: int) -> list[int]:
    line = []
    while version in by_version:
        line.append(version)
        version = by_version[version].base
    return line
