"""What people have asked memory itself, in a conversation: carried out at once where it is clear, else it waits for a person.

What they ask to forget is quarantined, as `quarantine(request=…)` does, and the messages that asked lose their texts. What
they say is wrong is superseded by what they say instead. Only what the person sees, and owns or alone has said, is touched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.locks import Locks
from memory_sql.db.queries.owned import own_of
from memory_sql.db.queries.requests import SPOKEN, Beside, Requests, SpokenKey, SpokenReview
from memory_sql.db.repositories.events import record_all
from memory_sql.domain.ids import observation_id, parse_observation_id
from memory_sql.domain.selection import Selection
from memory_sql.errors import NotFoundError
from memory_sql.languages.wording import is_among, pieces
from memory_sql.lifecycle import corrections, ending, requests
from memory_sql.lifecycle.corrections import Asked
from memory_sql.lifecycle.corrections.request import find
from memory_sql.lifecycle.journal import Entry

MOST_HIDDEN = 10  # observations, by all requests of one formation; what is more waits for a person
MOST_CORRECTED = 3  # by one request
MORE = "says_more"  # why the text of a message that asks waits for a person: with it something else would be lost


@dataclass(frozen=True, slots=True)
class Wish:
    """What a user asks for in these messages of a conversation. `scope_id`: theirs, where a review is kept.

    `observations` are meant; `news` says instead of them what is so. `unsure`: why a person has to decide, in one word.
    `words`: by which what is meant is told from other things. `more`: those of the messages that say something else, too,
    which is stored nowhere else. `withheld`: what was stored of them that the request may mean; a refusal brings it back.
    """

    kind: Literal["forget", "correct"]
    what: str
    user_id: str
    numbers: tuple[int, ...]
    observations: tuple[str, ...]
    news: tuple[str, ...]
    unsure: str | None
    scope_id: int | None
    words: frozenset[str] = frozenset()
    more: frozenset[int] = frozenset()
    withheld: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Carried:
    """What was hidden, also since it says the same or was made of it; how many observations were superseded.

    `ended`: what the journal has to say of the texts that have ended.
    """

    hidden: frozenset[str] = frozenset()
    superseded: int = 0
    ended: Entry | None = None


async def carry_out(
    session: Session,
    locks: Locks,
    agent_id: str,
    conversation_id: str,
    run_id: int,
    wishes: Sequence[Wish],
    settings: Settings,
    now: datetime,
) -> Carried:
    """Under the locks of the caller, of which the agent is shared: what more is needed, is said to them.

    `run_id`: of the formation that has heard them.
    """
    done, left = Carried(), MOST_HIDDEN
    carried, waiting = list[Wish](), list[Wish]()
    for wish in wishes:
        principal = {"agent_id": agent_id, "user_id": wish.user_id, "conversation_id": conversation_id}
        asked = Asked(principal, None, wish.what if wish.kind == "forget" else None, settings, now)
        wish = await _still(session, asked, wish, done.hidden)
        if wish.kind == "forget" and wish.unsure is None and len(wish.observations) > left:
            wish = replace(wish, unsure="too_many")
        if await _is_hidden_already(session, locks.agent_key, wish, settings):
            carried.append(wish)
        elif wish.unsure is not None:
            waiting.append(wish)
        elif wish.kind == "forget":
            done = replace(done, hidden=done.hidden | await _hide(session, locks, asked, wish, wish.observations))
            left -= len(wish.observations)
            carried.append(wish)
        else:
            superseded = await _correct(session, locks, asked, wish)
            done = replace(done, superseded=done.superseded + superseded)
            if not superseded:
                waiting.append(replace(wish, unsure="nothing_newer"))
        done = replace(done, hidden=done.hidden | await _hide(session, locks, asked, wish, wish.withheld))
    waiting = [wish for wish in waiting if _can_wait(wish)]
    kept = {number for wish in waiting for number in wish.numbers}
    for wish in carried:
        if (numbers := sorted(wish.more - kept)) and wish.scope_id is not None:
            waiting.append(replace(wish, numbers=(*numbers,), observations=(), news=(), unsure=MORE))
        kept |= wish.more
    asked_for = {number for wish in carried for number in wish.numbers}
    if ended := asked_for - kept:
        entry = await ending.end(session, agent_id, locks.agent_key, conversation_id, ended, now)
        done = replace(done, ended=entry)
    await _file(session, locks.agent_key, conversation_id, run_id, waiting, asked_for, now)
    return done


def _can_wait(wish: Wish) -> bool:
    """Not what nothing can come of.

    What corrects without naming what was wrong has been stored, and the consolidation compares it with all that is known.
    """
    return wish.scope_id is not None and not (wish.kind == "correct" and wish.news and not wish.observations)


async def _is_hidden_already(session: Session, agent_key: int, wish: Wish, settings: Settings) -> bool:
    """Whether nothing was found because the same person has asked for the same before."""
    if (wish.kind, wish.unsure, settings.spoken_requests) != ("forget", "not_found", "hide"):
        return False
    asked = [pieces(words) for words in await Requests(session, agent_key).words_of(wish.user_id)]
    return bool(wish.words) and any(all(is_among(word, there) for word in wish.words) for there in asked)


async def _still(session: Session, asked: Asked, wish: Wish, hidden: Collection[str]) -> Wish:
    """With what is still theirs alone to ask about, now that nobody changes it any more."""
    keys = [parse_observation_id(one) for one in wish.observations]
    own = await own_of(session, asked.agent_id, wish.user_id, keys)
    still = [observation_id(*key) for key in keys if key in own and await _is_active(session, asked, key)]
    if not still and wish.unsure is None and not (keys and {*wish.observations} <= {*hidden}):
        return replace(wish, observations=(), unsure="not_found")
    return replace(wish, observations=tuple(still))


async def _is_active(session: Session, asked: Asked, key: tuple[int, int]) -> bool:
    try:
        found = await find(session, asked, observation_id(*key))
    except NotFoundError:
        return False
    return found.observation.status == "active"


async def _hide(session: Session, locks: Locks, asked: Asked, wish: Wish, observations: Collection[str]) -> set[str]:
    hidden = set[str]()
    for one in observations:
        if one not in hidden:  # it didn't go with another
            chosen = Selection(user_id=wish.user_id, observation_id=one, replaced=True)
            hidden |= {
                *(await corrections.quarantine_under(session, asked, locks, chosen, is_request=True)).observations
            }
    return hidden


async def _correct(session: Session, locks: Locks, asked: Asked, wish: Wish) -> int:
    """Each by the first of the news that can take its place: of the same scope, and newer."""
    superseded = 0
    for old in wish.observations[:MOST_CORRECTED]:
        for new in wish.news:
            if new != old and await corrections.supersede_under(session, asked, locks, old, new):
                superseded += 1
                break
    return superseded


async def _file(
    session: Session,
    agent_key: int,
    where: str,
    run_id: int,
    wishes: Sequence[Wish],
    carried: Collection[int],
    now: datetime,
) -> None:
    """For a person to decide, with their messages in the place of their words.

    `carried`: the messages of which something was carried out; they lose their texts when nothing of them waits any more.
    """
    await record_all(
        session,
        [
            {
                "agent_key": agent_key,
                "kind": SPOKEN,
                "actor": wish.user_id,
                "conversation_id": where,
                "run_id": run_id,
                "scope_id": wish.scope_id,
                "detail": {
                    "asked": wish.kind,
                    "numbers": list(wish.numbers),
                    "why": wish.unsure,
                    "observations": list(wish.observations),
                    "news": list(wish.news),
                    "withheld": list(wish.withheld),
                    "ends": sorted({*wish.numbers} & {*carried} - wish.more),
                },
                "created_at": now,
            }
            for wish in wishes
        ],
    )


async def ask_anew(
    session: Session,
    agent_id: str,
    agent_key: int,
    conversation_id: str,
    run_id: int,
    waiting: Sequence[Mapping[str, Any]],
    more: Collection[int],
    now: datetime,
) -> Entry | None:
    """Of messages that a run has formed anew: what waited waits on. `more`: those that say what is stored nowhere.

    The other texts of which only that waited end.
    """
    events, numbers = list[dict[str, Any]](), set[int]()
    for one in waiting:
        left = one["detail"]["numbers"]
        if one["detail"]["why"] == MORE:
            left = [number for number in left if number in more]
            numbers |= {*one["detail"]["numbers"]} - {*left}
        if left:
            told = {"agent_key": agent_key, "kind": SPOKEN, "conversation_id": conversation_id, "run_id": run_id}
            events.append({**one, **told, "detail": {**one["detail"], "numbers": left}})
    await record_all(session, events)
    numbers -= {number for one in events for number in one["detail"]["numbers"]}
    return await ending.end(session, agent_id, agent_key, conversation_id, numbers, now) if numbers else None


async def accept(session: Session, asked: Asked, locks: Locks, key: SpokenKey, review: SpokenReview) -> list[Entry]:
    """Forgets or supersedes what it means; the messages that ask to forget have no text then, unless more of them waits.

    Under the locks of the caller, of which the agent is; what more is needed, is said to them.
    """
    locks.need((), [review.conversation_id])
    own = await own_of(
        session, asked.agent_id, review.user_id, [parse_observation_id(one) for one in review.observations]
    )
    still = [one for one in review.observations if parse_observation_id(one) in own]
    if review.asked == "forget":
        beside = await Requests(session, locks.agent_key).beside(key, review)
        done = await _end(session, asked, locks, review, review.numbers, beside)
        for one in still:
            chosen = Selection(user_id=review.user_id, observation_id=one, replaced=True)
            done += [one.entry for one in await requests.forget_under(session, asked, locks, chosen)]
        for kept in review.withheld:
            done += [one.entry for one in await requests.erase_under(session, asked, locks, kept) or ()]
        return done
    principal = {**asked.principal, "user_id": review.user_id, "conversation_id": review.conversation_id}
    for old in still[:MOST_CORRECTED]:
        for new in review.news:
            given = replace(asked, principal=principal)
            if new != old and await corrections.supersede_under(session, given, locks, old, new):
                break
    return []


async def refuse(session: Session, asked: Asked, locks: Locks, key: SpokenKey, review: SpokenReview) -> list[Entry]:
    """The messages lose their texts for what else was asked in them, and done; not while more of them waits.

    What was kept back for it is no longer. Under the locks of the caller; what more is needed, is said to them.
    """
    locks.need((), [review.conversation_id])
    beside = await Requests(session, locks.agent_key).beside(key, review)
    accepted = {number for one in beside if one.is_accepted_to_forget for number in one.numbers}
    done = await _end(session, asked, locks, review, {*review.ends} | ({*review.numbers} & accepted), beside)
    for kept in review.withheld:
        await requests.take_back_under(session, asked, locks, kept)
    return done


async def _end(
    session: Session,
    asked: Asked,
    locks: Locks,
    review: SpokenReview,
    numbers: Iterable[int],
    beside: Sequence[Beside],
) -> list[Entry]:
    waiting = {number for one in beside if one.outcome is None for number in one.numbers}
    here = (asked.agent_id, locks.agent_key, review.conversation_id)
    ended = {*numbers} - waiting
    entry = await ending.end(session, *here, ended, asked.now) if ended else None
    return [] if entry is None else [entry]
