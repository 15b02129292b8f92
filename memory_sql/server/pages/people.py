"""A person: all that is known, in plain words; a copy of it; and how to make it forgotten."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from fastapi import Response

from memory_sql.domain.observations import Observation
from memory_sql.domain.results import Receipt
from memory_sql.domain.scopes import Scope
from memory_sql.domain.selection import Selection
from memory_sql.errors import NotFoundError, StaleError
from memory_sql.memory import Memory
from memory_sql.server import answers
from memory_sql.server.pages import wording
from memory_sql.server.pages.sourcing import MOST_SENTENCES, sourced
from memory_sql.server.pages.visits import Visit, shown
from memory_sql.server.routing import EXPORTS

MOST_SCOPES = 20  # whose texts one page shows; others are linked to
MOST_LINKS = 200
MOST_WAITING = 40  # observations that are in no text yet
NEWEST = 200  # observations that are read for a page
_turns = WeakKeyDictionary[Memory, asyncio.Semaphore]()


async def person(visit: Visit) -> Response:
    """Texts with their sources, and what isn't in them yet."""
    memory = visit.memory
    scopes = await memory.scopes.list(**visit.whose)
    scopes.sort(key=lambda scope: scope.ref.kind != "individual")  # what is theirs first
    newest = await memory.observations.list(**visit.whose, limit=NEWEST)
    by_scope: dict[str, list[Observation]] = {}
    for one in newest:
        by_scope.setdefault(one.scope.id, []).append(one)
    parts, left = [], (MOST_SENTENCES, MOST_WAITING)
    for scope in scopes[:MOST_SCOPES]:
        parts.append(part := _Part(scope, by_scope.get(scope.ref.id, []), *left))
        left = max(0, left[0] - len(part.sentences)), max(0, left[1] - len(part.waiting))
    return shown(visit, "person", known=parts, more=scopes[MOST_SCOPES:][:MOST_LINKS], scopes=len(scopes))


class _Part:
    """A scope as the page of a person shows it: at most so many sentences, and of what isn't in its text yet."""

    def __init__(self, scope: Scope, found: list[Observation], sentences: int, waiting: int) -> None:
        self.scope = scope
        text = scope.consolidation or ""
        whole = sourced(text, [one for one in found if not one.pending], sentences) if sentences else []
        waits = [one for one in found if one.pending or not text]
        self.sentences, self.waiting = whole[:sentences], waits[:waiting]
        self.is_cut = len(whole) > sentences or (bool(text) and not sentences) or len(waits) > waiting


async def export(visit: Visit) -> Response:
    """Everything that is stored about them, a line of JSON each."""
    turns = _turns.setdefault(visit.memory, asyncio.Semaphore(EXPORTS))
    made = await answers.streamed(visit.memory.people.export(**visit.whose), turns)
    made.headers["Content-Disposition"] = 'attachment; filename="memory.ndjson"'
    return made


# Forgetting: the preview, then the name typed, then the receipt


async def preview(visit: Visit) -> Response:
    return await _previewed(visit, _all_of(visit))


async def forget(visit: Visit) -> Response:
    """Only what the preview showed: what has changed since is shown before it goes."""
    if visit.form.get("name") != visit.user:
        problem = "Nothing was forgotten. Type the name exactly as it stands there."
        return await _previewed(visit, _all_of(visit), 422, problem)
    return await _done(visit, _all_of(visit))


async def preview_one(visit: Visit) -> Response:
    return await _previewed(visit, _one_of(visit))


async def forget_one(visit: Visit) -> Response:
    return await _done(visit, _one_of(visit))


def _all_of(visit: Visit) -> Selection:
    return Selection(user_id=visit.user)


def _one_of(visit: Visit) -> Selection:
    """A key that stands for a person selects only what is theirs or they alone have said."""
    key = visit.path_ids["observation_id"]
    return Selection(user_id=visit.user, observation_id=key) if visit.is_own else Selection(observation_id=key)


async def _forget(visit: Visit, selection: Selection, **how: Any) -> Receipt:
    receipt = await visit.memory.forget(selection, **visit.of_agent, wait=False, actor=visit.actor, **how)
    if selection.observation_id is not None and not receipt.found:
        raise NotFoundError("observation", selection.observation_id)
    return receipt


async def _previewed(visit: Visit, selection: Selection, status: int = 200, problem: str | None = None) -> Response:
    planned, found = await _forget(visit, selection, dry_run=True), None
    if selection.observation_id is not None:
        with suppress(NotFoundError):  # it is hidden, or this person may not see it any more
            found = await visit.memory.observations.get(selection.observation_id, **visit.whose)
    name = "forget" if selection.observation_id is None else "forget_one"
    told = _told(visit, planned)
    return shown(visit, name, status, **told, found=found, seen=planned.fingerprint, problem=problem)


async def _done(visit: Visit, selection: Selection) -> Response:
    seen = visit.form.get("seen", "")
    try:
        receipt = await _forget(visit, selection, if_fingerprint=seen, reason="asked for in the inspector")
    except StaleError:
        problem = "Nothing was forgotten. What would go has changed since you looked; this is how it is now."
        return await _previewed(visit, selection, 409, problem)
    return shown(visit, "receipt", **_told(visit, receipt))


def _told(visit: Visit, receipt: Receipt) -> dict[str, Any]:
    """What others have said about somebody is theirs to know: a person's own key isn't told of it."""
    if visit.is_own:
        receipt = receipt.model_copy(update={"kept": (), "naming": ()})
    return {"receipt": receipt, "counts": wording.counts_of(receipt), "why": wording.why_kept}
