"""How private an observation is, and whether rules may archive it.

What becomes more private leaves every place that it has spread to.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from memory_sql.db import Session
from memory_sql.db.closures import Closure
from memory_sql.db.locks import Locks, under_locks
from memory_sql.db.repositories.corrections import CorrectionRepository
from memory_sql.db.repositories.observations import ObservationKey
from memory_sql.domain.ids import observation_id, parse_observation_id
from memory_sql.domain.observations import Marked, Observation, Policy
from memory_sql.errors import InputError
from memory_sql.lifecycle.corrections.archiving import archive_unsupported
from memory_sql.lifecycle.corrections.request import Asked, find, find_version, lock, observation_at
from memory_sql.lifecycle.corrections.retracting import Spread, retract, spread_of
from memory_sql.lifecycle.corrections.texts import need
from memory_sql.privacy import SENSITIVITIES, Sensitivity

COLUMNS = ("no_propagate", "confidential", "sensitivity")


async def mark(
    session: Session,
    asked: Asked,
    wanted: str,
    private: bool | None,
    sensitivity: Sensitivity | None,
    policy: Policy | None,
    if_version: int | None,
) -> Marked:
    """Sets how private it is, with what it has superseded and what says the same in another scope of its owner.

    If that is more than before, all that was made of these is erased, and the texts that hold it are rebuilt. What a legal
    hold keeps of it is withdrawn until the hold ends. The policy is its own alone, until it is corrected.
    """
    values = _values(private, sensitivity)
    if policy is not None and not values:
        locked = await lock(session, asked, wanted, if_version)
        await CorrectionRepository(session, locked.agent_key).set_policy(locked.key, policy, asked.entry)
        return Marked(observation=await locked.reread(session))
    if not values:
        raise InputError("pass private=, sensitivity= or policy=")
    agent_key, key = (await find(session, asked, wanted)).agent_key, parse_observation_id(wanted)

    async def read() -> Observation:
        return (await find_version(session, asked, wanted, if_version)).observation

    return await _mark(session, asked, agent_key, key, values, read, policy)


async def raise_sensitivity(
    session: Session, asked: Asked, agent_key: int, key: ObservationKey, sensitivity: Sensitivity
) -> Observation:
    """As `mark`, for the host, whoever may see it."""
    read = partial(observation_at, session, agent_key, key)
    return (await _mark(session, asked, agent_key, key, {"sensitivity": sensitivity}, read)).observation


async def _mark(
    session: Session,
    asked: Asked,
    agent_key: int,
    key: ObservationKey,
    values: dict[str, Any],
    read: Callable[[], Awaitable[Observation]],
    policy: Policy | None = None,
) -> Marked:
    waits = str(uuid.uuid4())

    async def act(locks: Locks) -> Marked:
        spread = await spread_of(session, agent_key, key)
        await need(session, agent_key, locks, spread.scopes, spread.closure.conversations)
        before = await read()
        gone, withheld = await _set(session, asked, locks, spread, values, waits)
        retracted, withdrawn = (
            tuple(observation_id(*key) for key in taken.observations) for taken in (gone.erased, gone.withdrawn)
        )
        detail = {"from": _privacy_of(before), "to": values, "retracted": list(retracted)}
        detail |= {"id": waits, "withdrawn": list(withdrawn)} if withdrawn else {}
        repository = CorrectionRepository(session, agent_key)
        await repository.record("privacy", key, detail, asked.entry)
        if policy is not None:
            await repository.set_policy(key, policy, asked.entry)
        observation = await observation_at(session, agent_key, key)
        return Marked(observation=observation, retracted=retracted, withdrawn=withdrawn, withheld=tuple(withheld))

    return await under_locks(session, agent_key, act, shared=True)


def _values(private: bool | None, sensitivity: Sensitivity | None) -> dict[str, Any]:
    values = dict(zip(COLUMNS, (private, private, sensitivity), strict=True))
    return {name: value for name, value in values.items() if value is not None}


async def _set(
    session: Session, asked: Asked, locks: Locks, spread: Spread, values: dict[str, Any], waits: str
) -> tuple[Closure, list[int]]:
    """What went, and the scopes whose texts wait to be rewritten."""
    agent_key = locks.agent_key
    repository, gone, withheld = CorrectionRepository(session, agent_key), Closure(), list[int]()
    if any(_is_raised(now, values) for now in await repository.privacy(spread.line)):
        gone = spread.closure
        withheld, lessened = await retract(session, asked, agent_key, spread, waits)
        archived = await archive_unsupported(session, asked, locks, lessened, "mark")
        withheld = sorted({*withheld, *archived.withheld})
    await repository.set_privacy(spread.line, values)
    return gone, withheld


def _privacy_of(observation: Observation) -> dict[str, Any]:
    return {name: getattr(observation, name) for name in COLUMNS}


def _is_raised(now: tuple[bool, bool, str], values: Mapping[str, Any]) -> bool:
    no_propagate, confidential, sensitivity = now
    wanted = values.get("sensitivity", sensitivity)
    return (
        values.get("no_propagate", False) > no_propagate
        or values.get("confidential", False) > confidential
        or SENSITIVITIES.index(wanted) > SENSITIVITIES.index(sensitivity)
    )
