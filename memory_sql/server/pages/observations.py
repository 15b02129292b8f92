"""Single observations: a list with filters, one with its history and evidence, and what can be done with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, cast

from fastapi import Response

from memory_sql.domain.observations import Observation, Resolution, Sensitivity
from memory_sql.errors import InputError, NotFoundError
from memory_sql.server.pages.rendering import position
from memory_sql.server.pages.visits import Visit, back, path, shown

LIMIT = 50
SOURCES = 20
SPREAD = 20
SENSITIVITIES = ("public", "private", "sensitive")


async def listing(visit: Visit) -> Response:
    """Newest first; with words, what a search finds, best first."""
    memory, words, scope = visit.memory, visit.query("query"), visit.query("scope")
    on, replaced = _day(visit.query("on")), visit.query("replaced") is not None
    scopes = await memory.scopes.list(**visit.whose)
    following = None
    if words is not None:
        searched = await memory.search(
            words, **visit.whose, top_k=LIMIT, messages=0, as_of=on, include_superseded=replaced
        )
        found = [hit.observation for hit in searched.results if scope is None or hit.observation.scope.id == scope]
    else:
        found = await memory.observations.list(
            **visit.whose, scope_id=scope, limit=LIMIT, before=visit.query("before"), as_of=on
        )
        following = position(found, LIMIT)
    asked = {"query": words, "scope": scope, "on": visit.query("on"), "replaced": "yes" if replaced else None}
    return shown(visit, "observations", found=found, scopes=scopes[:500], asked=asked, following=following)


async def one(visit: Visit) -> Response:
    """With the messages that it was made of, what was made of it, and what took its place."""
    key, memory = visit.path_ids["observation_id"], visit.memory
    try:
        found = await memory.observations.get(key, **visit.whose, explain=True)
    except NotFoundError:
        return shown(visit, "no_observation", 404, key=key)
    sources = await memory.observations.sources(key, **visit.whose, limit=SOURCES)
    spread = await memory.observations.spread(key, **visit.whose, limit=SPREAD)
    successor, is_theirs = None, not visit.is_own
    if found.superseded_by is not None:
        with suppress(NotFoundError):  # it was forgotten or hidden
            successor = await memory.observations.get(found.superseded_by, **visit.whose)
    if visit.is_own:
        with suppress(NotFoundError):  # another member of the group has said it
            await memory.observations.get(key, **visit.whose, own=True)
            is_theirs = True
    return shown(
        visit, "observation", found=found, sources=sources, spread=spread, successor=successor, is_theirs=is_theirs,
        sensitivities=SENSITIVITIES,
    )  # fmt: skip


def _day(text: str | None) -> datetime | None:
    """The end of a day (UTC), as far as it is over."""
    if text is None:
        return None
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise InputError("on: a day, like 2026-03-02") from None
    return day + timedelta(days=1)


# What can be done with one


class Act(NamedTuple):
    """`target`: the call that it makes."""

    target: str
    done: Callable[[Visit], Awaitable[Response]]


def _act(name: str, word: str, given: Callable[[Visit], dict[str, Any]] = lambda _: {}) -> Act:
    """Calls `observations.<name>` with what the form gives, and goes back to the observation that it returns."""
    target = f"observations.{name}"

    async def done(visit: Visit) -> Response:
        key = visit.path_ids["observation_id"]
        await visit.pass_gate(target, observation_id=key)
        call = getattr(visit.memory.observations, name)
        found = await call(key, **visit.whose, actor=visit.actor, **given(visit))
        return back(_path(visit, found.id if isinstance(found, Observation) else key), word)

    return Act(target, done)


def _path(visit: Visit, key: str) -> str:
    return visit.person_path + path("observations", key)


def _version(visit: Visit) -> dict[str, int]:
    """Of the observation as the page showed it: somebody else's change in between isn't undone unseen."""
    text = visit.form.get("version", "")
    return {"if_version": int(text)} if text.isascii() and text.isdigit() and len(text) < 10 else {}


def _correction(visit: Visit) -> dict[str, Any]:
    return {"text": visit.form.get("text", ""), **_version(visit)}


def _privacy(visit: Visit) -> dict[str, Any]:
    private, sensitivity = visit.form.get("private", ""), visit.form.get("sensitivity", "")
    if private not in ("", "yes", "no") or sensitivity not in ("", *SENSITIVITIES):
        raise InputError("choose who may learn of it")
    found: dict[str, Any] = _version(visit) | ({"private": private == "yes"} if private else {})
    return found | ({"sensitivity": cast("Sensitivity", sensitivity)} if sensitivity else {})


def _resolution(visit: Visit) -> dict[str, Any]:
    value = visit.form.get("resolved", "")
    if value not in ("fulfilled", "expired", ""):
        raise InputError("choose how it ended")
    return {"resolved": cast("Resolution", value) or None}


ACTS = {
    "correct": _act("update", "corrected", _correction),
    "confirm": _act("confirm", "confirmed", _version),
    "dispute": _act("dispute", "disputed", _version),
    "mark": _act("mark", "marked", _privacy),
    "resolve": _act("resolve", "resolved", _resolution),
    "reinstate": _act("reinstate", "reinstated"),
    "hide": _act("quarantine", "hidden"),
    "unhide": _act("unquarantine", "unhidden"),
}
