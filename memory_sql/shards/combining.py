"""Calls without an agent: what asks all shards, and how their answers become one.

Each takes the shards, `ask` (the same call of one inner memory, with other arguments if given) and the caller's arguments.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, BinaryIO

from memory_sql.db.principals import SERVICE
from memory_sql.db.repositories import shards as map_of
from memory_sql.domain.arguments import path_of
from memory_sql.domain.rechecks import RecheckResult
from memory_sql.domain.results import (
    AgentSummary,
    Backlog,
    DailyCost,
    EmbedResult,
    JournalStatus,
    MaintainResult,
    PersonReceipt,
    Receipt,
    RunDueResult,
    Violation,
)
from memory_sql.errors import BusyError, InputError, InvalidIdError, MovedAgentError, ShardError
from memory_sql.jobs import DueWork
from memory_sql.lifecycle import journal
from memory_sql.shards.moving import settle_all
from memory_sql.shards.spread import Inner, Spread

Ask = Callable[..., Awaitable[Any]]
Given = Mapping[str, Any]
Combine = Callable[[Spread, Ask, Given], Awaitable[Any]]

_Refused = MovedAgentError | InvalidIdError  # by a shard, before it has done anything

EXAMPLES = 20  # of each sweep
LEAVING_SECONDS, PAUSE_SECONDS = 60.0, 0.5  # how long to wait until an agent has left a shard, and how often to try
SUMMED = (
    "due_conversations due_scopes due_propagations waiting_conversations in_progress retrying dead held late due_rechecks"
    " unheard"
).split()
MAINTAINED = (
    "messages evicted counts requested classified expired stages archived tiers links episodes guidelines unlearned"
).split()


async def everywhere(spread: Spread, ask: Ask, given: Given) -> Any:
    """The same in all; what the home answers."""
    return (await spread.each(ask))[spread.home.name]


async def run_due(spread: Spread, ask: Ask, given: Given) -> RunDueResult:
    """One shard after another, `limit` of each; one that can't be reached is in `failed`."""
    done = RunDueResult()
    for shard in spread.shards.values():
        try:
            done += await spread.in_shard(shard, ask)
        except ShardError as error:
            done += RunDueResult(failed={f"shard {name}": said for name, said in error.shards.items()})
    return done


async def forget_person(spread: Spread, ask: Ask, given: Given) -> PersonReceipt:
    """A transaction in each shard. Nothing is begun unless all answer.

    A shard forgets nothing while it has rows of an agent that has left and knew the user. All are asked again then, since
    the one to which an agent goes may have been asked before it came. Raises `MovedAgentError` when that takes too long.
    """
    if given.get("session") is not None:
        raise InputError(
            "people.forget works in all shards, so it can't join the transaction of one; leave out session="
        )
    await spread.each(lambda memory: memory.database.check_schema())
    until = time.monotonic() + LEAVING_SECONDS
    agents, receipts = dict[str, Receipt](), list[PersonReceipt]()
    while True:
        version = await _map_version(spread)
        refused: list[_Refused] = []
        told: dict[str, PersonReceipt | None] = await spread.each(partial(_forgotten_in, ask, refused))
        for receipt in filter(None, told.values()):
            receipts.append(receipt)
            for agent_id, one in receipt.agents.items():
                agents.setdefault(agent_id, one)  # of one that is asked again the first says what went
        has_moved = any(isinstance(one, MovedAgentError) for one in refused)
        if not has_moved and await _map_version(spread) == version:
            break
        if time.monotonic() > until:
            raise MovedAgentError
        await asyncio.sleep(PAUSE_SECONDS)
    if not receipts:
        raise refused[0]
    return receipts[0].model_copy(update={"id": str(uuid.uuid4()), "agents": agents})


async def _forgotten_in(ask: Ask, refused: list[_Refused], memory: Inner) -> PersonReceipt | None:
    """A shard refuses while it has rows of an agent that is moving away, or has moved; and an id that isn't written as it
    would be stored, unless it has something under it.
    """
    try:
        receipt: PersonReceipt = await ask(memory)
    except (MovedAgentError, InvalidIdError) as error:
        refused.append(error)
        return None
    return receipt


async def _map_version(spread: Spread) -> int:
    async with spread.home_database.statement(principal=SERVICE) as unit:
        return await map_of.map_version(unit)


async def backlog(spread: Spread, ask: Ask, given: Given) -> Backlog:
    """The sums of those that answer; the others are in `unanswered`."""
    told, away = await spread.answers(ask)
    if not told:
        raise ShardError(away)
    each: list[Backlog] = list(told.values())
    sums = {name: sum(getattr(one, name) for one in each) for name in SUMMED}
    refused = max((one for one in each if one.refused_at), key=attrgetter("refused_at"), default=each[0])
    oldest = min((one.oldest_due_at for one in each if one.oldest_due_at), default=None)
    added = {
        "oldest_due_at": oldest,
        "refusal": refused.refusal,
        "refused_at": refused.refused_at,
        "unanswered": tuple(away),
    }
    whole = each[0].model_copy(update={**sums, **added})
    runtime = spread.home.memory._runtime
    runtime.telemetry.backlog(whole, max(0.0, (runtime.now() - (oldest or runtime.now())).total_seconds()))
    return whole


async def merged(
    spread: Spread, ask: Ask, given: Given, *, key: Callable[[Any], Any], limit: int = 100, newest: bool = False
) -> list[Any]:
    """The rows of all in their order, as many as one would return."""
    told = await spread.each(ask)
    rows = sorted((row for rows in told.values() for row in rows), key=key, reverse=newest)
    return rows[: given.get("limit", limit)]


async def costs(spread: Spread, ask: Ask, given: Given) -> list[DailyCost]:
    told = await spread.each(ask)
    rows = sorted((row for rows in told.values() for row in rows), key=attrgetter("day"), reverse=True)
    return [_of_day(list(same)) for _, same in groupby(rows, key=attrgetter("day"))]


def _of_day(rows: Sequence[DailyCost]) -> DailyCost:
    total: dict[str, Decimal] = {}
    for row in rows:
        for currency, cost in row.costs.items():
            total[currency] = total.get(currency, Decimal(0)) + cost
    counts = {
        name: sum(getattr(row, name) for row in rows) for name in ("runs", "failures", "input_tokens", "output_tokens")
    }
    return DailyCost(day=rows[0].day, **counts, costs=dict(sorted(total.items())))


async def maintain(spread: Spread, ask: Ask, given: Given) -> MaintainResult:
    each: list[MaintainResult] = list((await spread.each(ask)).values())
    sums = {name: sum(getattr(one, name) for one in each) for name in MAINTAINED}
    seen: Counter[str] = Counter()
    examples = []
    for example in (example for one in each for example in one.examples):
        seen[example.sweep] += 1
        if seen[example.sweep] <= EXAMPLES:
            examples.append(example)
    added = {"examples": tuple(examples), "complete": all(one.complete for one in each)}
    return each[0].model_copy(update={**sums, **added})


async def embed(spread: Spread, ask: Ask, given: Given) -> EmbedResult:
    each: list[EmbedResult] = list((await spread.each(ask)).values())
    return EmbedResult(
        embedded=sum(one.embedded for one in each),
        without_direction=sum(one.without_direction for one in each),
        complete=all(one.complete for one in each),
    )


async def recheck(spread: Spread, ask: Ask, given: Given) -> RecheckResult:
    each: list[RecheckResult] = list((await spread.each(ask)).values())
    failed = {name: said for one in each for name, said in one.failed.items()}
    return RecheckResult(rechecked=tuple(done for one in each for done in one.rechecked), failed=failed)


async def claim(spread: Spread, ask: Ask, given: Given) -> DueWork | None:
    """Of the first that has any due. Raises `ShardError` if none has, and not all answered."""
    away: dict[str, str] = {}
    for shard in spread.in_turn():
        try:
            found: DueWork | None = await spread.in_shard(shard, ask)
        except ShardError as error:
            away |= error.shards
            continue
        if found is not None:
            return found
    if away:
        raise ShardError(away)
    return None


async def agents(spread: Spread, ask: Ask, given: Given) -> list[AgentSummary]:
    """An agent that was erased in one shard and lives in another is listed once."""
    told: dict[str, Sequence[AgentSummary]] = await spread.each(ask)
    once: dict[str, AgentSummary] = {}
    for one in (one for rows in told.values() for one in rows):
        once.setdefault(one.id, one)
    async with spread.home.memory.database.statement(principal=SERVICE) as unit:  # whose collation is that of each
        in_order = await map_of.ordered(unit, list(once))
    return [once[agent_id] for agent_id in in_order[: given.get("limit", 100)]]


async def verify(spread: Spread, ask: Ask, given: Given) -> list[Violation]:
    """What concerns a whole database says which."""
    told: dict[str, Sequence[Violation]] = await spread.each(ask)
    return [_in_shard(one, name) for name, found in told.items() for one in found]


def _in_shard(violation: Violation, name: str) -> Violation:
    if violation.agent_id is not None:
        return violation
    return violation.model_copy(update={"detail": f"{violation.detail} (shard {name})"})


async def position(spread: Spread, ask: Ask, given: Given) -> str:
    """Of each by its name: their servers count apart."""
    told: dict[str, str] = await spread.each(ask)
    return " ".join(f"{name}={position}" for name, position in told.items())


async def export(spread: Spread, ask: Ask, given: Given) -> int:
    """One shard after another, with one header; the rows of each are of one moment.

    Raises `BusyError` if an agent moves meanwhile: it may be missing, or be there twice.
    """
    rows, version = 0, await _unmoved(spread)
    for number, shard in enumerate(spread.shards.values()):
        to = given["to"] if number == 0 else _WithoutHeader(given["to"])
        rows += await spread.in_shard(shard, partial(ask, to=to))
    await _unmoved(spread, version)
    return rows


async def _unmoved(spread: Spread, since: int | None = None) -> int:
    """The version of the map. Raises `BusyError` if an agent is moving, or any move has begun or ended since that version."""
    async with spread.home_database.transaction(principal=SERVICE) as unit:
        version, moving = await map_of.map_version(unit), await map_of.moving(unit)
    if moving:
        raise BusyError("the move of agent", ", ".join(moving))
    if since not in (None, version):
        raise BusyError("the move of", "an agent")
    return version


class _WithoutHeader:
    """Passes on what follows the first line."""

    def __init__(self, to: BinaryIO) -> None:
        self._to = to
        self._is_past = False

    def write(self, chunk: bytes) -> None:
        if not self._is_past:
            _, ended, chunk = chunk.partition(b"\n")
            self._is_past = bool(ended)
        if chunk:
            self._to.write(chunk)


async def restore_check(spread: Spread, ask: Ask, given: Given) -> list[Receipt]:
    """One shard after another, each its own forgettings. Then the map is corrected for agents that have moved since."""
    receipts = [receipt for shard in spread.shards.values() for receipt in await spread.in_shard(shard, ask)]
    await settle_all(spread, set())
    return receipts


async def journal_status(spread: Spread, ask: Ask, given: Given) -> JournalStatus:
    """`database` and `incarnation` are those of the home; `others` counts what is of none of the shards."""
    told: dict[str, JournalStatus] = await spread.each(ask)
    each, home = list(told.values()), told[spread.home.name]
    file = given.get("journal_file") or spread.home.memory.settings.forget_journal
    entries = len(journal.begun(path_of("journal_file", file)).entries)
    copied: Counter[str] = Counter()
    for one in each:
        copied.update(one.copied_from)
    return home.model_copy(
        update={
            "missing": _all(one.missing for one in each),
            "planned": _all(one.planned for one in each),
            "others": max(0, entries - sum(entries - one.others for one in each)),
            "copied_from": dict(copied),
        }
    )


def _all(each: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for some in each for one in some))


def refusal(spread: Spread) -> str | None:
    """That of the first shard whose work was refused: it is of the one model of all."""
    said = (shard.memory.work.refusal for shard in spread.shards.values() if shard.is_open)
    return next((one for one in said if one is not None), None)


COMBINED: Mapping[str, Combine] = {
    "run_due": run_due,
    "people.forget": forget_person,
    "models.set_price": everywhere,
    "work.backlog": backlog,
    "work.dead": partial(merged, key=attrgetter("finished_at")),
    "work.failures": partial(merged, key=attrgetter("finished_at"), newest=True),
    "work.costs": costs,
    "work.waiting": partial(merged, key=lambda one: (one.oldest_at is None, one.oldest_at, one.agent_id, one.work)),
    "work.late": partial(merged, key=attrgetter("since")),
    "work.maintain": maintain,
    "work.embed": embed,
    "work.recheck": recheck,
    "work.claim": claim,
    "work.catch_up": everywhere,
    "admin.agents": agents,
    "admin.verify": verify,
    "admin.position": position,
    "admin.export": export,
    "admin.restore_check": restore_check,
    "admin.journal_status": journal_status,
}
