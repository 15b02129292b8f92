"""A scope: its text with the sources of each sentence, its versions, and what isn't in the text yet."""

from __future__ import annotations

from typing import Any

from fastapi import Response

from memory_sql.domain.scopes import Scope
from memory_sql.errors import InputError, NotFoundError
from memory_sql.server.pages.sourcing import sourced
from memory_sql.server.pages.visits import Visit, back, path, shown

NEWEST = 500  # observations that are read for the sources
VERSIONS = 15
WAITING = 30


async def scope(visit: Visit) -> Response:
    found = await _visible(visit)
    memory, key = visit.memory, found.ref.id
    history = await memory.scopes.history(**visit.whose, scope_id=key, limit=VERSIONS)
    known = await memory.observations.list(**visit.whose, scope_id=key, limit=NEWEST)
    diff = None
    if visit.query("from") or visit.query("to"):
        versions: dict[str, Any] = {"from_version": _version(visit, "from"), "to_version": _version(visit, "to")}
        diff = await memory.scopes.diff(**visit.whose, scope_id=key, **versions)
    return shown(
        visit,
        "scope",
        scope=found,
        sentences=sourced(found.consolidation or "", [one for one in known if not one.pending]),
        waiting=[one for one in known if one.pending][:WAITING],
        history=history,
        diff=diff,
    )


async def consolidate(visit: Visit) -> Response:
    """Rewrites the text now; it waits for the model."""
    found = await _visible(visit)
    done = await visit.memory.scopes.consolidate(**visit.of_agent, scope_id=found.ref.id)
    return back(_path(visit), "unchanged" if done.version is None else "consolidated")


async def undo(visit: Visit) -> Response:
    found = await _visible(visit)
    await visit.memory.scopes.undo(**visit.of_agent, scope_id=found.ref.id)
    return back(_path(visit), "undone")


async def _visible(visit: Visit) -> Scope:
    """Raises `NotFoundError`, also for a scope that this person may not see."""
    key = visit.path_ids["scope_id"]
    for one in await visit.memory.scopes.list(**visit.whose):
        if one.ref.id == key:
            return one
    raise NotFoundError("scope", key)


def _path(visit: Visit) -> str:
    return visit.person_path + path("scopes", visit.path_ids["scope_id"])


def _version(visit: Visit, name: str) -> int | None:
    text = visit.query(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InputError(f"{name}: the number of a version")
    return int(text)
