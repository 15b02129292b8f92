"""Buffered messages → observations, in one model call unless its answer leaves something out.

`take` takes a lease; `load_claimed` reads a window of messages; `decide` asks the model; `apply` re-checks the lease, the
cursor and the epochs of everything that the prompt showed, and stores. A window is read once: the cursor moves in the
statement that stores what came of it.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.repositories.conversations import BufferedMessage, ConversationRepository, ConversationState
from memory_sql.db.repositories.episodes import EpisodeRepository
from memory_sql.db.repositories.formations import MOST_GROUPS, Claimed, FormationRepository, Outcome
from memory_sql.db.repositories.groups import GroupRepository
from memory_sql.db.repositories.observations import Draft, Saved, observation_of
from memory_sql.db.repositories.runs import AnsweredRun, RunKey, RunRepository
from memory_sql.db.repositories.scopes import ScopeRepository, ScopeState
from memory_sql.domain.ids import OWNER_PREFIX, observation_id, owner_key
from memory_sql.domain.observations import Observation
from memory_sql.domain.query import Query
from memory_sql.domain.usage import NO_CALL
from memory_sql.errors import BusyError, NotFoundError, StaleError
from memory_sql.formation.answers import Extraction, answer_for
from memory_sql.formation.dialogue import Extracted, extract
from memory_sql.formation.requests import Asked
from memory_sql.formation.sieve import ASKED_TO_FORGET, Sifted, sift
from memory_sql.formation.window import Loaded, Target, Window, as_asked, beside, task, window_of
from memory_sql.languages.text import clean
from memory_sql.llm import LanguageModel
from memory_sql.llm.answers import read
from memory_sql.llm.retry import judge, pause
from memory_sql.privacy.classify import mask, masked_value
from memory_sql.retrieval import related

log = logging.getLogger("memory_sql")

MOST_SILENT = 30  # members of groups whom a prompt names though they say nothing


class ConversationKey(NamedTuple):
    agent_id: str
    conversation_id: str


@dataclass(frozen=True, slots=True)
class Applied:
    """`known` counts what was there already; `more`: messages came that this window didn't hold.

    `ids`: of the observations, also of those that were there, by the places of the drafts. `hidden` and `superseded`: what
    people have asked of the memory itself. `withheld`: what was stored though it is asked to be forgotten, which a person
    has yet to decide, with who ask for it; it has to be hidden.
    """

    observations: tuple[Observation, ...]
    known: int
    refused: dict[str, int]
    more: bool
    ids: Mapping[int, str] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    superseded: int = 0
    withheld: tuple[tuple[str, tuple[Asked, ...]], ...] = ()


async def take(session: Session, key: ConversationKey, settings: Settings) -> ConversationState | None:
    """The conversation, leased, with what is to be read of it; None where it can't be had."""
    lease = timedelta(seconds=settings.lease_seconds)
    return await FormationRepository(session).claim_batch(*key, lease, settings)


async def refuse_untaken(session: Session, key: ConversationKey) -> NoReturn:
    """Raises `BusyError`, `NotFoundError`."""
    if not await ConversationRepository(session).exists(*key):
        raise NotFoundError("conversation", key.conversation_id)
    raise BusyError("conversation", key.conversation_id)


async def load_claimed(
    session: Session, held: ConversationState, settings: Settings, now: datetime, reason: str
) -> Loaded | None:
    """The next window of a conversation that was claimed before; None when every message has been read.

    Nothing is locked: what changes the conversation meanwhile is seen when the answer is applied. Raises `StaleError` when
    the lease has been lost. `settings`: the agent's.
    """
    state = held
    conversations, formations, runs = _repositories(session)
    batch = (held.batch if isinstance(held, Claimed) else None) or await formations.batch(state, settings)
    if not batch.messages and await conversations.lock(state) is None:
        raise _lost(state)
    answered, messages = None, batch.messages
    if state.excluded:
        await runs.abandon(state.agent_key, now, before=state.fence, conversation_id=state.conversation_id)
    elif batch.unfinished or not messages:
        answered = await _unfinished(session, runs, state, now)
        messages = await conversations.range(state, answered.to_number) if answered else messages
    if state.excluded or not messages:
        await conversations.release_idle(state)
        return None
    members = await silent_members(session, state, messages)
    groups = (state.group_ids or batch.groups) if answered is None else ()
    window = window_of(state, messages, settings, answered.seen if answered else None, members, groups)
    offers = await offered(session, state, window, settings, now)
    targets = tuple(target for offer in offers for target in offer.targets)
    shown = {target.state.scope_id: target.state.epoch for target in targets if target.state}
    queries = [query for offer in offers for query in offer.queries]
    if answered is not None:
        run = await runs.take_over(answered.key, state.fence)
        found = await related.found(session, state.agent_id, queries, now)
    else:
        await runs.check_budget(state.agent_id, state.agent_key, settings, now)
        run, found = await start(session, state, messages, targets, shown, list(members), queries, now)
    targets = tuple(target for offer in offers for target in offer.told(found))
    return Loaded(state, run, window, targets, shown, now, answered, reason)


def _lost(state: ConversationState, otherwise: str = "") -> StaleError:
    return StaleError("conversation", state.conversation_id, f"the lease on it was lost{otherwise}")


def _repositories(session: Session) -> tuple[ConversationRepository, FormationRepository, RunRepository]:
    return ConversationRepository(session), FormationRepository(session), RunRepository(session)


async def _unfinished(
    session: Session, runs: RunRepository, state: ConversationState, now: datetime
) -> AnsweredRun | None:
    """The answer that waits to be applied, if it still counts; the other runs that didn't end are ended.

    One that was given to several conversations isn't kept whole, and doesn't count.
    """
    answered, unfinished = await runs.unfinished(state.agent_key, state.conversation_id, state.formed_number)
    if answered is not None and not (answered.answer and await _is_still_good(session, state, answered)):
        answered = None
    if unfinished > (answered is not None):
        kept = answered.key.run_id if answered else None
        await runs.abandon(state.agent_key, now, but=kept, before=state.fence, conversation_id=state.conversation_id)
    return answered


async def start(
    session: Session,
    state: ConversationState,
    messages: Sequence[BufferedMessage],
    targets: Sequence[Target],
    shown: Mapping[int, int],
    silent: Sequence[str],
    queries: Sequence[Query],
    now: datetime,
) -> tuple[RunKey, dict[int, list[str]]]:
    """What the prompt shows is noted, so that whoever goes on with its answer knows whether it still counts.

    With what the queries find, by scope. Raises `StaleError`. `silent`: the members whom it names.
    """
    numbers = messages[0].number - 1, messages[-1].number
    seen = {"epoch": state.epoch, "scopes": shown, "targets": as_asked(targets)}
    started = await FormationRepository(session).start(state, numbers, seen, silent, queries, related.MOST, now)
    if started is None:
        raise _lost(state, ", or who would be named in it has gone")
    return started[0], related.by_scope(started[1])


async def silent_members(
    session: Session, state: ConversationState, messages: Sequence[BufferedMessage]
) -> dict[str, str]:
    """The names of the members of the conversation's groups who wrote none of these messages, by their ids."""
    if not state.group_ids:
        return {}
    owners = [owner_key("group", group) for group in state.group_ids]
    speak = {message.user_id or state.user_id for message in messages}
    return await GroupRepository(session, state.agent_key).members_named(owners, MOST_SILENT, speak)


async def groups_for(session: Session, state: ConversationState, settings: Settings) -> Sequence[str]:
    """The conversation's groups; of one between a user and the agent alone the user's, whom it may be proposed to."""
    if state.group_ids or len(state.participants) != 1:
        return state.group_ids
    (user,) = state.participants
    return await GroupRepository(session, state.agent_key).taking_from(user, settings.sharing, MOST_GROUPS)


@dataclass(frozen=True, slots=True)
class Offer:
    """A scope, once for each of its lanes, and what a prompt shows of it: `texts`, and before them what `queries` find."""

    targets: tuple[Target, ...]
    texts: tuple[str, ...] = ()
    queries: tuple[Query, ...] = ()
    room: int = 0

    def told(self, found: Mapping[int, Sequence[str]]) -> Iterator[Target]:
        """The targets with what is in their scopes; `found`: what the queries of all offers found, by scope."""
        for target in self.targets:
            texts = found.get(target.state.scope_id, ()) if target.state and self.queries else ()
            yield replace(target, knows=cut([*texts, *self.texts], self.room))


async def offered(
    session: Session, state: ConversationState, window: Window, settings: Settings, now: datetime
) -> list[Offer]:
    """The targets with what is in their scopes, as far as everybody who may profit from it may see it.

    What the prompt shows, an obedient model may copy into any scope that it is offered. So a private text is shown only
    where nobody else reads along, and a group's only in its own conversations, where all who speak are members. What a
    conversation remembers of itself only where nobody else has ever spoken in it: it holds others' words.
    """
    belonging, persons = GroupRepository(session, state.agent_key), window.persons
    owners = [target.owner for target in window.named]
    found = await ScopeRepository(session).with_pending(state.agent_key, owners, settings.pending_max)
    known = {(scope.owner, scope.name): (scope, pending) for scope, pending in found}
    mains = {scope.owner: scope.scope_id for scope, _ in found if not scope.name}
    groups = [scope_id for owner, scope_id in mains.items() if owner.startswith(OWNER_PREFIX["group"])]
    members = await belonging.members_among(groups, list(persons)) if groups else {}
    here = {owner_key("group", group) for group in state.group_ids}
    groups = [scope_id for owner, scope_id in mains.items() if owner in here]
    all_hear = state.shared or settings.shared_conversations
    heard = set(groups) if all_hear else await belonging.heard_by(groups, state.participants)
    alone = len(persons) == 1 and not state.group_ids
    always_alone = alone and set(persons).issuperset(state.participants)
    offers = []
    added = beside(window, [scope for scope, _ in found], here, settings.collective)
    for target in (*window.named, *added):
        scope, pending = known.get((target.owner, target.name), (None, ()))
        if scope is None:
            offers.append(Offer((target,)))
            continue
        main = mains.get(target.owner, scope.scope_id)  # to which its members belong
        present, hears = members.get(main, frozenset()), target.heard or main in heard
        together = target.owner in here and present.issuperset(persons)
        shown_to = {"individual": alone, "group": together, "conversation": always_alone}
        opened = bool(present) and (hears or not target.name) if target.kind == "group" else target.is_open
        is_open = scope.is_active and opened
        lanes = replace(target, state=scope, members=present, heard=hears, is_open=is_open).by_lanes
        if not scope.is_active or not shown_to.get(target.kind, True):
            offers.append(Offer(lanes))
            continue
        shares = len(added) if target.name else 1  # what stands beside main scopes shares what one of these may take
        texts = [item.content for item in pending]
        if scope.kind != "individual":  # of a person's text what the window may concern; of any other all
            texts.insert(0, scope.consolidation or "")
        queries = tuple(_concerning(scope, window, now)) if scope.kind == "individual" else ()
        offers.append(Offer(lanes, tuple(texts), queries, settings.scope_text_max_characters // max(shares, 1)))
    return offers


def _concerning(scope: ScopeState, window: Window, now: datetime) -> list[Query]:
    if not scope.done_seq:
        return []  # it has taken in nothing yet
    said = [message.content or "" for message in window.spoken if message.role == "user"]
    whose = scope.display_name or scope.ref.owner_id or ""
    return related.queries_of(said, scope.scope_id, whose, scope.language, now)


def cut(texts: Sequence[str], max_characters: int) -> tuple[str, ...]:
    """Whole texts from the front while there is room; the first is cut, since it is the scope's own."""
    kept: list[str] = []
    room = max_characters
    for text in texts:
        if len(text) > room and kept:
            break
        kept.append(text[:room])
        room -= len(text)
    return tuple(filter(None, kept))


async def _is_still_good(session: Session, state: ConversationState, answered: AnsweredRun) -> bool:
    """Whether nothing that the stored answer's prompt showed has been deleted since (rule 6)."""
    seen = {int(key): epoch for key, epoch in answered.seen["scopes"].items()}
    epochs = await ScopeRepository(session).epochs(state.agent_key, list(seen))
    return answered.seen["epoch"] == state.epoch and epochs == seen


async def decide(llm: LanguageModel, loaded: Loaded, settings: Settings) -> Extracted:
    """Asks the model, unless an answer lies stored from a worker that died, or nothing was said."""
    if not loaded.window.spoken:
        return Extracted(Extraction(), "", NO_CALL, "")
    if loaded.answered is not None:
        stored = loaded.answered
        answer = read(stored.answer, answer_for(tuple(target.alias for target in loaded.targets)))
        return Extracted(answer.extraction, stored.answer, stored.usage, stored.prompt_version)
    is_last = loaded.conversation.errors + 1 >= settings.max_errors
    most = settings.formation_window_characters
    return await extract(llm, settings.fast_model, task(loaded, settings), most, is_last=is_last)


async def keep(session: Session, loaded: Loaded, answered: Extracted, settings: Settings) -> None:
    """Stores the raw answer before it is applied, so that whoever goes on applies the same one."""
    raw = clean(answered.raw)[0]
    if settings.secrets != "keep":
        raw = _masked_answer(raw)
    if not await RunRepository(session).keep_answer(loaded.run, raw, answered.usage, answered.prompt_version):
        raise StaleError("conversation", loaded.conversation.conversation_id, "another worker has taken over")


def _masked_answer(raw: str) -> str:
    """As it came where it holds no secret. Masked value by value if it is JSON, so that it stays so."""
    try:
        value, found = masked_value(json.loads(raw))
    except ValueError:
        return mask(raw).text
    return json.dumps(value, ensure_ascii=False) if found else raw


async def apply(
    session: Session,
    loaded: Loaded,
    decided: Extracted,
    settings: Settings,
    now: datetime,
    metadata: Mapping[str, Any] = MappingProxyType({}),
) -> Applied:
    """Stores the observations, each with the metadata, and moves the cursor, in one statement.

    Raises `StaleError` when what the model saw has changed.
    """
    others = decided.others
    drafts, refused, withheld = _sifted(loaded, decided, settings)
    kept, drafts = len(drafts), [*drafts, *(one.draft for one in withheld)]
    if metadata:
        given = dict(metadata) if settings.secrets == "keep" else masked_value(dict(metadata))[0]
        drafts = [replace(draft, metadata=given) for draft in drafts]
    refused += Counter(messages_set_aside=len(decided.aside), signals_unheard=len(decided.unheard))
    to_number = loaded.window.messages[-1].number
    outcomes = await FormationRepository(session).apply(
        loaded.conversation,
        loaded.run,
        to_number,
        drafts,
        loaded.shown,
        others.epochs,
        refused,
        settings,
        now,
    )
    saved = _saved(loaded, outcomes, refused)
    for n in sorted(decided.aside):
        number, where = loaded.window.spoken[n - 1].number, loaded.conversation.conversation_id
        log.warning("message %s of conversation %s is set aside: the model refuses it", number, where)
    stored = [
        observation_of(drafts[one.place], one.key, one.outcome, loaded.run.run_id, now)
        for one in outcomes
        if one.place is not None and one.key is not None and one.outcome != "known"
    ]
    ids = {one.place: observation_id(*one.key) for one in outcomes if one.place is not None and one.key is not None}
    news = {one.id for one in stored}
    return Applied(
        tuple(stored),
        len(saved.known),
        dict(+refused),
        any(one.more for one in outcomes),
        {place: one for place, one in ids.items() if place < kept},
        withheld=tuple((ids[n], one.by) for n, one in enumerate(withheld, kept) if ids.get(n) in news),
    )


def _sifted(loaded: Loaded, decided: Extracted, settings: Settings) -> Sifted:
    """With that alone kept back which a person may yet want to be kept; the rest isn't stored."""
    sifted = sift(decided.extraction, loaded, settings, decided.others.evidence)
    waiting = [one.asked for one in decided.meant if one.unsure is not None]
    owners = {target.owner for target in loaded.targets if target.state}
    withheld = [
        one for one in sifted.withheld if one.draft.scope.owner in owners and all(asked in waiting for asked in one.by)
    ]
    sifted.refused[ASKED_TO_FORGET] -= len(withheld)
    return sifted._replace(refused=+sifted.refused, withheld=withheld)


async def lock(session: Session, loaded: Loaded) -> ConversationState:
    """The conversation, locked. Raises `StaleError`."""
    state = await ConversationRepository(session).lock(loaded.conversation)
    if state is None:
        raise StaleError(
            "conversation", loaded.conversation.conversation_id, "it was formed, or something was forgotten, meanwhile"
        )
    return state


def outcome(saved: Saved, refused: Counter[str]) -> dict[str, Any]:
    """As the ledger has it."""
    return {"observations": len(saved.stored), "duplicates": len(saved.known), "refused": dict(+refused)}


async def save(
    session: Session, loaded: Loaded, drafts: Sequence[Draft], refused: Counter[str], settings: Settings, now: datetime
) -> Saved:
    """Stores what may still go where it is meant to go, counting in `refused` what may not.

    Locks the scopes. Raises `StaleError` where something that the model was shown has been forgotten.
    """
    agent_key, run_id = loaded.conversation.agent_key, loaded.run.run_id
    outcomes = await FormationRepository(session).store(agent_key, drafts, loaded.shown, run_id, settings, now)
    saved = _saved(loaded, outcomes, refused)
    if settings.episodes:
        placed = [(one.key, drafts[one.place]) for one in outcomes if one.key and one.place is not None]
        new = [(key, draft.observed_at, draft.topics) for key, draft in placed if key in saved.stored]
        await EpisodeRepository(session).rejoin(agent_key, loaded.conversation.conversation_id, new, settings)
    return saved


def _saved(loaded: Loaded, outcomes: Sequence[Outcome], refused: Counter[str]) -> Saved:
    """Counts in `refused` what might not go where it was meant to go. Raises `StaleError`."""
    for one in outcomes:
        if one.outcome in _STALE:
            raise StaleError("conversation", loaded.conversation.conversation_id, _STALE[one.outcome])
        if one.outcome == "ended":
            raise StaleError("run", str(loaded.run.run_id), "it has ended")
        if one.place is not None and one.key is None:
            refused[one.outcome] += 1
    keys = [(one.key, one.outcome == "known") for one in outcomes if one.key is not None]
    return Saved(tuple(key for key, known in keys if not known), tuple(key for key, known in keys if known))


_STALE = {
    "moved": "it has been formed, or something has been forgotten",
    "stale": "something that the model was shown has been forgotten",
}


async def fail(session: Session, loaded: Loaded, error: BaseException, settings: Settings, now: datetime) -> None:
    """Records why, gives the lease back and says when to try again; the messages stay as they are."""
    counts = loaded.reason != "asked"
    verdict = judge(error, loaded.conversation.failures, loaded.conversation.errors, settings, now, counts=counts)
    changes: dict[str, Any] = {"failures": verdict.failures, "errors": verdict.errors}
    retry_at = (
        now + pause(0, settings) if verdict.gives_up else verdict.retry_at
    )  # where a forgetting has ended the run
    if retry_at is not None:
        changes |= {"due_at": retry_at, "due_reason": "retry", "dead_run_id": None}
    # First the conversation, then the run, as everywhere: locks are taken in one order.
    conversations, runs = ConversationRepository(session), RunRepository(session)
    ours = await conversations.release(loaded.conversation, **changes)
    gives_up = verdict.gives_up and ours and await runs.is_open(loaded.run)
    if gives_up:
        await conversations.release(loaded.conversation, dead_run_id=loaded.run.run_id, due_at=None, due_reason=None)
    await runs.fail(loaded.run, error, now, gives_up=gives_up)


async def give_back(
    session: Session, claimed: ConversationState, error: BaseException, settings: Settings, now: datetime
) -> None:
    """The lease of a conversation that couldn't even be loaded, and when to try again."""
    verdict = judge(error, claimed.failures, claimed.errors, settings, now, counts=True)
    changes: dict[str, Any] = {"failures": verdict.failures}
    if verdict.retry_at is not None:
        changes |= {"due_at": verdict.retry_at, "due_reason": "retry", "dead_run_id": None}
    await ConversationRepository(session).release(claimed, **changes)
