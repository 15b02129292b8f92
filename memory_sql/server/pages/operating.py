"""For who operates it: work, reviews, groups, holds, keys, imports."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from fastapi import Response

from memory_sql.domain.ids import host_id
from memory_sql.domain.keys import RIGHTS
from memory_sql.domain.limits import MOST_DAYS
from memory_sql.domain.results import DailyCost
from memory_sql.errors import InputError, NotFoundError
from memory_sql.server.identity import allowed
from memory_sql.server.pages.visits import Visit, back, path, shown

LIMIT = 25  # of what waits or failed
MOST = 300  # rows of a table
DAYS = 30  # of what models have cost


async def work(visit: Visit) -> Response:
    memory, of_agent = visit.memory, visit.of_agent
    return shown(
        visit,
        "work",
        backlog=await memory.work.backlog(**of_agent),
        reviews=await memory.work.reviews(**of_agent, limit=LIMIT),
        dead=await memory.work.dead(**of_agent, limit=LIMIT),
        failures=await memory.work.failures(**of_agent, limit=LIMIT),
        costs=bars(await memory.work.costs(**of_agent, days=DAYS)),
    )


class Day(NamedTuple):
    """A day's work, with the lengths of its bars: of the tokens that were sent, and of those that came back."""

    cost: DailyCost
    sent: float
    back: float


def bars(days: Sequence[DailyCost], width: int = 160) -> list[Day]:
    """The day with most tokens is as long as `width`."""
    most = max((one.input_tokens + one.output_tokens for one in days), default=0) or 1
    return [
        Day(one, *(round(tokens / most * width, 1) for tokens in (one.input_tokens, one.output_tokens))) for one in days
    ]


async def decide(visit: Visit) -> Response:
    decision = visit.form.get("decision")
    if decision not in ("accept", "refuse"):
        raise InputError("decide: accept or refuse")
    review, is_accepted = visit.path_ids["review_id"], decision == "accept"
    await visit.memory.work.decide(review, **visit.of_agent, accept=is_accepted, actor=visit.actor)
    return back(f"{visit.agent_path}/work", "accepted" if is_accepted else "refused")


async def retry(visit: Visit) -> Response:
    await visit.memory.work.retry(**visit.of_agent, run_id=_number(visit, "run_id"))
    return back(f"{visit.agent_path}/work", "retried")


async def discard(visit: Visit) -> Response:
    """It isn't tried again; nothing is deleted."""
    await visit.memory.work.discard(**visit.of_agent, run_id=_number(visit, "run_id"))
    return back(f"{visit.agent_path}/work", "discarded")


async def groups(visit: Visit) -> Response:
    return _table(visit, "groups", await visit.memory.groups.list(**visit.of_agent))


async def group(visit: Visit) -> Response:
    key = visit.path_ids["group_id"]
    found = next((one for one in await visit.memory.groups.list(**visit.of_agent) if one.group_id == key), None)
    if found is None:
        raise NotFoundError("group", key)
    members = await visit.memory.groups.members(key, **visit.of_agent)
    return shown(visit, "group", group=found, members=members[:MOST], more=max(0, len(members) - MOST))


async def holds(visit: Visit) -> Response:
    return _table(visit, "holds", (await visit.memory.holds.list(**visit.of_agent, released=True))[::-1])


async def place(visit: Visit) -> Response:
    kind, target = visit.form.get("kind", ""), visit.form.get("target", "").strip()
    if kind not in ("user", "conversation", "group", "observation"):
        raise InputError("choose what the hold is on")
    what: dict[str, Any] = {f"{kind}_id": host_id(target, "target")}
    reason = visit.form.get("reason", "").strip() or None
    await visit.memory.holds.place(**visit.of_agent, **what, reason=reason, actor=visit.actor)
    return back(f"{visit.agent_path}/holds", "placed")


async def release(visit: Visit) -> Response:
    await visit.memory.holds.release(_number(visit, "hold_id"), **visit.of_agent, actor=visit.actor)
    return back(f"{visit.agent_path}/holds", "released")


async def keys(visit: Visit) -> Response:
    found = (await visit.memory.keys.list(revoked=True))[::-1]
    given, ends = [right for right in RIGHTS if visit.identity.may(right, None)], visit.identity.expires_at
    lasts = ends is None or ends > visit.memory.now() + timedelta(days=1)
    return shown(visit, "keys", keys=found[:MOST], more=max(0, len(found) - MOST), given=given, ends=ends, lasts=lasts)


async def create_key(visit: Visit) -> Response:
    """The answer has its secret, once: it is in no address, and nowhere stored.

    A key gives nobody what it lacks: no right, and no time.
    """
    form = visit.form
    wanted = tuple(right for right in RIGHTS if form.get(right) == "yes")
    for right in wanted:
        allowed(visit.identity, right, None)
    agents = [part for line in form.get("agents", "").splitlines() if (part := line.strip())]
    ends, own = _end(visit), visit.identity.expires_at
    if own is not None and (ends is None or ends > own):
        raise InputError("no key outlasts the one that makes it: give fewer days")
    made = await visit.memory.keys.create(
        form.get("name", ""),
        rights=wanted,
        agents=agents or None,
        user_id=form.get("user", "").strip() or None,
        expires_at=ends,
        actor=visit.actor,
    )
    return shown(visit, "key_made", 201, key=made)


def _end(visit: Visit) -> datetime | None:
    days = visit.form.get("days", "").strip()
    if not days:
        return None
    if not (days.isascii() and days.isdigit() and len(days) <= len(str(MOST_DAYS)) and 0 < int(days) <= MOST_DAYS):
        raise InputError(f"for how many days: a number up to {MOST_DAYS:,}, or nothing")
    return visit.memory.now() + timedelta(days=int(days))


async def revoke(visit: Visit) -> Response:
    await visit.memory.keys.revoke(_number(visit, "key_id"))
    return back(path("keys"), "revoked")


async def imports(visit: Visit) -> Response:
    return _table(visit, "imports", (await visit.memory.imports.list())[::-1])


def _table(visit: Visit, name: str, rows: Sequence[object]) -> Response:
    told: dict[str, Any] = {name: rows[:MOST]}
    return shown(visit, name, **told, more=max(0, len(rows) - MOST))


def _number(visit: Visit, name: str) -> int:
    text = visit.path_ids[name]
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise NotFoundError(name.removesuffix("_id"), text)
    return int(text)
