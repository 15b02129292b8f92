"""Removal with its whole lineage: observations, what was made of them, the texts that hold them, the words they came from.

`forget` runs in one transaction: it shares the agent, so that holds stand still, finds all that goes, locks it and looks
again until nothing has been added, rewinds the texts to what they were before, and erases. The epochs that it raises
refuse whatever a model is making of it meanwhile. What is left becomes pending and goes into the next version of the texts.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.closures import Closure, Seeds
from memory_sql.db.locks import NONE, Locks, lock_whole_agent, under_found, under_locks
from memory_sql.db.queries.forgettings import former_ids
from memory_sql.db.queries.naming import names_in_use, names_of, still_naming
from memory_sql.db.queries.selections import Selections
from memory_sql.db.repositories.aliases import AliasRepository
from memory_sql.db.repositories.consolidations import ConsolidationRepository
from memory_sql.db.repositories.corrections import CorrectionRepository
from memory_sql.db.repositories.erasure import Beside, ForgettingRepository, lock_around
from memory_sql.db.repositories.erasure_of_one import forget_one
from memory_sql.db.repositories.events import record
from memory_sql.db.repositories.following import FollowingRepository
from memory_sql.db.repositories.holds import HoldRepository
from memory_sql.db.repositories.imported_messages import ImportedMessageRepository
from memory_sql.db.repositories.imports import ImportRepository
from memory_sql.db.repositories.scopes import ScopeRepository
from memory_sql.db.repositories.states import StateRepository
from memory_sql.db.repositories.supports import SupportRepository
from memory_sql.db.savepoints import taken_back, taken_back_on_error
from memory_sql.db.vacuum import PHYSICAL
from memory_sql.domain.arguments import needed_text
from memory_sql.domain.ids import moved, observation_id, parse_observation_id
from memory_sql.domain.query import Query
from memory_sql.domain.results import Kept, Naming, Physical, Receipt
from memory_sql.domain.selection import Selection
from memory_sql.errors import HeldError, NotFoundError, StaleError
from memory_sql.lifecycle import ending
from memory_sql.lifecycle.corrections import Asked, archive_unsupported, leave_what_is_strange
from memory_sql.lifecycle.corrections.request import agent_key_for
from memory_sql.lifecycle.corrections.texts import need
from memory_sql.lifecycle.journal import Entry
from memory_sql.lifecycle.selecting import words_of

NOTHING = Closure()


@dataclass(frozen=True, slots=True)
class Found:
    """`texts`: by scope the first version that goes, whatever it holds. `said_in`: conversations that lose something else.

    `beside` None: it has yet to be asked for. `shared`: what was chosen and stays, since others have said it as well.
    """

    seeds: Seeds
    closure: Closure
    beside: Beside | None = None
    texts: Mapping[int, int] = field(default_factory=dict)
    said_in: Sequence[str] = ()
    shared: tuple[Kept, ...] = ()

    @property
    def scopes(self) -> list[int]:
        """The scopes that lose something, in id order."""
        return sorted(self.closure.scopes | {*self.seeds.scopes, *self.texts})

    @property
    def conversations(self) -> list[str]:
        return sorted({*self.closure.conversations, *self.seeds.conversations, *self.seeds.attended, *self.said_in})


async def find(session: Session, locks: Locks, selection: Selection, words: Query | None) -> Found:
    """All that would go. Raises `NotFoundError` for an observation that isn't there."""
    repository = ForgettingRepository(session, locks.agent_key)
    if selection.is_one_observation and selection.observation_id is not None:
        found = await repository.closure_of(parse_observation_id(selection.observation_id))
        if found is None:
            raise NotFoundError("observation", selection.observation_id)
        return Found(*found)
    seeds = await repository.seeds(selection, words)
    if selection.observation_id is not None and not seeds.observations:
        raise NotFoundError("observation", selection.observation_id)
    if locks.rows == NONE:  # it will be looked at again
        return Found(seeds, await repository.closure(seeds))
    shared = await Selections(session, locks.agent_key).said_with_others(selection, words)
    return Found(seeds, *await repository.closure_beside(seeds), shared=shared)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """`entry` says it again for the journal."""

    receipt: Receipt
    entry: Entry


async def forget(
    session: Session,
    asked: Asked,
    selection: Selection,
    if_fingerprint: str | None = None,
    names: Collection[str] = (),
) -> Forgotten:
    """Forgets it; `withheld` of the receipt are the scopes whose text is due to be rewritten.

    `names`: by which the user is known beside those that this agent knows.

    Raises `NotFoundError` for an agent or an observation that isn't there, `HeldError` for a whole agent of which anything
    is held, `StaleError` if the receipt has another fingerprint than that, `InvalidIdError` if nothing is found and an id
    isn't written as ids are stored.
    """
    refused = selection.refused
    if if_fingerprint is None and refused is None:
        return await _forget(session, asked, selection, names)
    if if_fingerprint is not None:
        needed_text("if_fingerprint", if_fingerprint)
    async with taken_back_on_error(session):
        forgotten = await _forget(session, asked, selection, names)
        if refused is not None and not (forgotten.receipt.found or forgotten.receipt.kept):
            raise refused
        if if_fingerprint not in (None, forgotten.receipt.fingerprint):
            raise StaleError("what would be forgotten", asked.agent_id, "it has changed since it was looked at")
    return forgotten


async def _forget(session: Session, asked: Asked, selection: Selection, names: Collection[str]) -> Forgotten:
    words = None

    async def act(locks: Locks) -> Forgotten:
        return await forget_under(session, asked, locks, selection, words, names)

    is_one = selection.is_one_observation or selection.is_own_observation
    if is_one or selection.is_one_conversation or selection.is_one_user:
        words = words_of(selection, asked.settings, asked.now)
        return await under_found(session, partial(_lock_around, session, asked, selection), act, shared=True)
    agent_key = await agent_key_for(session, asked)
    if selection.everything:
        receipt = _receipt(selection, NOTHING, {}, asked.settings, asked.now)
        return await _erase_agent(session, asked, agent_key, receipt)
    words = words_of(selection, asked.settings, asked.now)
    return await under_locks(session, agent_key, act, shared=True)


async def forget_under(
    session: Session,
    asked: Asked,
    locks: Locks,
    selection: Selection,
    words: Query | None = None,
    names: Collection[str] = (),
) -> Forgotten:
    """As `forget`, not of a whole agent, under the locks of the caller, of which the agent is shared."""
    found = await find(session, locks, selection, words)
    receipt = _receipt(selection, found.closure, {}, asked.settings, asked.now)
    return await _forget_found(session, asked, locks, found, receipt, names)


async def _forget_found(
    session: Session, asked: Asked, locks: Locks, found: Found, receipt: Receipt, known: Collection[str] = ()
) -> Forgotten:
    """Of whoever belonged to a group only by an id that is forgotten, nothing stays there in use."""
    users, agent_key = found.seeds.users, locks.agent_key
    beyond = await AliasRepository(session, agent_key).beyond(users) if users else []
    _need(locks, found)
    names = {*known, *await names_of(session, agent_key, users)} if users else ()
    forgotten = await _erase_with_ids(session, asked, locks, found, receipt, beyond)
    naming = await still_naming(session, agent_key, users, names)
    return replace(forgotten, receipt=forgotten.receipt.model_copy(update={"naming": naming})) if naming else forgotten


async def _erase_with_ids(
    session: Session, asked: Asked, locks: Locks, found: Found, receipt: Receipt, beyond: Sequence[str]
) -> Forgotten:
    agent_key = locks.agent_key
    if not beyond:
        return await _erase(session, asked, locks, found, receipt)
    held = await SupportRepository(session, agent_key).strange_to(beyond)
    await need(session, agent_key, locks, held)
    forgotten = await _erase(session, asked, locks, found, receipt)
    waits = str(uuid.uuid4())
    left = await leave_what_is_strange(session, asked, agent_key, [beyond], waits)
    if told := left.told_if_any(waits):
        detail = {"action": "forget", "into_user_id": beyond[0], **told}
        await record(session, agent_key, "alias", receipt.at, actor=asked.actor, detail=detail)
    withheld = tuple(sorted({*forgotten.receipt.withheld, *(f"s{key}" for key in left.withheld)}))
    return replace(forgotten, receipt=forgotten.receipt.model_copy(update={"withheld": withheld}))


async def forget_alone(session: Session, asked: Asked, selection: Selection) -> Receipt | None:
    """As `forget`, one observation on which nothing else hangs, in one statement. None: `forget` has more to do."""
    receipt = _receipt(selection, NOTHING, {}, asked.settings, asked.now)
    key, threshold = parse_observation_id(str(selection.observation_id)), asked.settings.consolidation_threshold
    return await forget_one(session, asked.agent_id, receipt, key, threshold, actor=asked.actor, reason=asked.reason)


async def _lock_around(session: Session, asked: Asked, selection: Selection) -> Locks:
    locks = await lock_around(session, asked.agent_id, selection)
    if locks is None:
        raise NotFoundError("agent", asked.agent_id)
    return locks


async def preview(session: Session, asked: Asked, selection: Selection, names: Collection[str] = ()) -> Receipt:
    """What `forget` would return, which is done and taken back; of a whole agent, only counted. Raises as `forget` does."""
    if selection.everything:
        agent_key = await agent_key_for(session, asked)
        await _refuse_held(session, agent_key)
        counts = await ForgettingRepository(session, agent_key).count_agent()
        receipt = _receipt(selection, NOTHING, counts, asked.settings, asked.now)
    else:
        async with taken_back(session):
            receipt = (await forget(session, asked, selection, names=names)).receipt
    return receipt.model_copy(update={"dry_run": True})


async def names_everywhere(session: Session, agents: Iterable[int], user: str) -> set[str]:
    """By which these agents know the user."""
    found = set[str]()
    for agent_key in agents:
        found |= {*await names_of(session, agent_key, await AliasRepository(session, agent_key).user_ids(user))}
    return found | names_in_use([user])


def only_named(selection: Selection, naming: tuple[Naming, ...], settings: Settings, now: datetime) -> Receipt:
    """The receipt of an agent that has nothing of the user, while others there name them."""
    receipt = _receipt(selection, NOTHING, {}, settings, now)
    return receipt.model_copy(update={"naming": naming, "physical": None})


async def take_out(session: Session, asked: Asked, agent_key: int, import_id: int) -> Receipt:
    """What an import brought, with what was made of it, as if it had never come: it may come again.

    Of its messages those of which something was made here stay; and those behind its observations that it didn't bring.
    """
    imports, messages = ImportRepository(session), ImportedMessageRepository(session, agent_key)

    async def act(locks: Locks) -> Receipt:
        seeds = Seeds(observations=tuple(await imports.observations(agent_key, import_id)), others_stay=True)
        texts = await imports.texts(agent_key, import_id)
        beside, heard = await imports.beside(agent_key, import_id, seeds.observations)
        closure = await ForgettingRepository(session, agent_key).closure(seeds, {*texts, *heard})
        closure |= beside
        said_in = await messages.brought(import_id)
        found = Found(seeds, replace(closure, heard=(*closure.heard, *heard)), texts=texts, said_in=said_in)
        _need(locks, found)
        receipt = _receipt(Selection(everything=True), found.closure, {}, asked.settings, asked.now)
        named = {"id": _of_import(import_id, receipt.id), "target": {"import": import_id}}
        return (await _erase(session, asked, locks, found, receipt.model_copy(update=named))).receipt

    return await under_locks(session, agent_key, act, shared=True)


def _of_import(import_id: int, receipt_id: str) -> str:
    """The id of a rollback: what it takes out isn't kept out (`memory.erase`)."""
    return f"import:{import_id}:{receipt_id}"


def _imported_by(forgetting: str) -> int | None:
    """The import of which it is a rollback."""
    kind, _, rest = forgetting.partition(":")
    return int(rest.partition(":")[0]) if kind == "import" else None


async def take_back(
    session: Session, asked: Asked, locks: Locks, messages: Sequence[tuple[str, int]], target: dict[str, Any]
) -> None:
    """What was made of these messages goes, and their texts, to be replaced. The other messages that it came from stay.

    Raises `HeldError`.
    """
    repository = ForgettingRepository(session, locks.agent_key)
    seeds = Seeds(messages=tuple(messages), others_stay=True)
    found = Found(seeds, *await repository.closure_beside(seeds))
    if found.closure.withdrawn:
        raise HeldError(0, f"a message of conversation {target['conversation_id']}")
    _need(locks, found)
    receipt = _receipt(Selection(everything=True), found.closure, {}, asked.settings, asked.now)
    await _erase(session, asked, locks, found, receipt.model_copy(update={"target": target}), "replace")


async def _erase(
    session: Session, asked: Asked, locks: Locks, found: Found, receipt: Receipt, event: str = "forget"
) -> Forgotten:
    agent_key, now = locks.agent_key, receipt.at
    repository = ForgettingRepository(session, agent_key)
    beside = found.beside or await repository.beside(found.closure, found.seeds.scopes)
    tainted, kept = dict(beside.tainted), beside.kept
    tainted |= {scope: min(version, tainted.get(scope, version)) for scope, version in found.texts.items()}
    rewound = await ConsolidationRepository(session).rewind(agent_key, tainted, "forget", now)
    lets_stand = any(one.lets_stand for one in rewound.values())
    if lets_stand:  # evidence has gone back to where it was lent
        kept = (await repository.beside(found.closure, ())).kept
    lessened = [parse_observation_id(one.observation) for one in kept]
    about = beside.about if found.beside else await repository.kept_about(found.seeds.users, found.closure)
    kept += tuple(
        one for one in (*found.shared, *about) if one.observation not in {other.observation for other in kept}
    )
    threshold, cause = asked.settings.consolidation_threshold, {"actor": asked.actor, "reason": asked.reason}
    erased = await repository.erase_told(found.closure, found.scopes, found.seeds, receipt, threshold, event, **cause)
    receipt = receipt.model_copy(update={"counts": erased.counts, "kept": kept})
    if not receipt.found:
        receipt = receipt.model_copy(update={"physical": None})
    if tainted or erased.standing or erased.is_unsettled:
        back, more = list[tuple[int, int]](), list[int]()
        if lets_stand or erased.standing or erased.is_unsettled:
            back, more = await _settle(session, asked, agent_key, found.scopes, erased.standing, now)
        withheld = await repository.await_rebuild(sorted({*tainted, *more}))
        await ScopeRepository(session).refresh_due(agent_key, found.scopes, threshold, now)
        told = {
            "withheld": tuple(f"s{key}" for key in withheld),
            "standing": tuple(observation_id(*key) for key in back),
        }
        receipt = receipt.model_copy(update=told)
    if erased.left:
        lessened = [key for key in lessened if key[0] in erased.left]
        archived = await archive_unsupported(session, asked, locks, lessened, event)
        told = {
            "withheld": tuple(sorted({*receipt.withheld, *(f"s{key}" for key in archived.withheld)})),
            "standing": tuple(one for one in receipt.standing if one not in archived.observations),
        }
        receipt = receipt.model_copy(update=told)
    return Forgotten(receipt, _entry(receipt, asked.agent_id, found, beside.refs))


async def _settle(
    session: Session, asked: Asked, agent_key: int, scope_ids: Sequence[int], standing: Sequence[int], now: datetime
) -> tuple[list[tuple[int, int]], list[int]]:
    """What gave way to what has gone (in the scopes `standing`), or was made of it, follows.

    Returns what stands again, in the order of the keys, and the scopes to be rewritten.
    """
    back = list[tuple[int, int]]()
    for state in await ScopeRepository(session).lock(agent_key, scope_ids=standing) if standing else ():
        back += [(state.scope_id, seq) for seq in await StateRepository(session).stand_again(state, now)]
    following, threshold = FollowingRepository(session, agent_key), asked.settings.consolidation_threshold
    followed, more = await following.settle(scope_ids, threshold, now, actor=asked.actor)
    return await CorrectionRepository(session, agent_key).in_use({*back, *followed}), more


async def release(session: Session, asked: Asked, agent_key: int) -> list[Forgotten]:
    """Erases what waited for a hold that has ended: one for each forgetting, with what no other hold keeps of it.

    A rollback of an import then goes on as far as it can. The caller has locked the agent.
    """
    repository, imports = ForgettingRepository(session, agent_key), ImportRepository(session)
    messages = ImportedMessageRepository(session, agent_key)

    async def act(locks: Locks) -> list[Forgotten]:
        waiting = await repository.released()
        rolled_back = sorted({run for key in waiting if (run := _imported_by(key)) is not None})
        said_in = [conversation for run in rolled_back for conversation in await messages.brought(run)]
        for closure in waiting.values():
            _need(locks, Found(Seeds(), closure, said_in=said_in))
        done = [await _erase_released(session, asked, locks, key, closure) for key, closure in waiting.items()]
        for run in rolled_back:
            await imports.undo(agent_key, run)
        return done

    return await under_locks(session, agent_key, act)


async def _erase_released(
    session: Session, asked: Asked, locks: Locks, waited: str, closure: Closure, receipt_id: str | None = None
) -> Forgotten:
    receipt = _receipt(Selection(everything=True), closure, {}, asked.settings, asked.now)
    run = _imported_by(waited)
    own = receipt.id if run is None else _of_import(run, receipt.id)
    receipt = receipt.model_copy(update={"id": receipt_id or own, "target": {"waited": waited}})
    forgotten = await _erase(session, asked, locks, Found(Seeds(), closure), receipt)
    return replace(forgotten, entry=forgotten.entry.model_copy(update={"waited": waited}))


def _need(locks: Locks, found: Found) -> None:
    locks.need({*found.scopes, *found.closure.reached}, found.conversations)


async def _erase_agent(session: Session, asked: Asked, agent_key: int, receipt: Receipt) -> Forgotten:
    repository = ForgettingRepository(session, agent_key)
    await lock_whole_agent(session, agent_key)
    await _refuse_held(session, agent_key)
    refs = await repository.imported()
    receipt = receipt.model_copy(update={"counts": await repository.erase_agent(receipt.at)})
    detail = {"id": receipt.id, "target": receipt.target, "observations": [], "counts": receipt.counts}
    cause = {"actor": asked.actor, "reason": asked.reason, "detail": detail}
    await record(session, agent_key, "forget", receipt.at, **cause)
    return Forgotten(receipt, Entry(id=receipt.id, at=receipt.at, agent_id=asked.agent_id, everything=True, refs=refs))


async def _refuse_held(session: Session, agent_key: int) -> None:
    if held := await HoldRepository(session, agent_key).count_open():
        raise HeldError(held)


async def again(session: Session, asked: Asked, agent_key: int, entry: Entry) -> Receipt | None:
    """Does what a journal's entry says, on a database that was restored from before; None: the database knows of it."""
    repository = ForgettingRepository(session, agent_key)
    if await repository.is_recorded(entry.forgetting):
        return None
    await repository.keep_out(entry.refs, asked.now)
    receipt = _receipt(Selection(everything=True), NOTHING, {}, asked.settings, asked.now)
    receipt = receipt.model_copy(update={"id": entry.forgetting})
    if entry.everything:
        return (await _erase_agent(session, asked, agent_key, receipt)).receipt
    called = await former_ids(session, agent_key, entry.renamed)
    if entry.ended:
        return await _end_again(session, asked, agent_key, entry, called, receipt)
    users = tuple(id for user in entry.users if (id := called.get(("user", user), user)) is not None)
    talks = [(called.get(("conversation", key), key), numbers) for key, numbers in entry.messages.items()]
    messages = tuple((key, n) for key, numbers in talks if key is not None for n in numbers)

    async def act(locks: Locks) -> Forgotten:
        if entry.waited is not None:  # what it had left is withdrawn by now, if a hold keeps it here as well
            closure = (await repository.released()).get(entry.waited, NOTHING)
            _need(locks, Found(Seeds(), closure))
            return await _erase_released(session, asked, locks, entry.waited, closure, entry.forgetting)
        attended = await repository.attended(users)
        named = (*(("user", user) for user in users), *entry.named)
        seeds = Seeds(users, (), entry.scopes, entry.observations, messages, attended=attended, named=named)
        found = Found(seeds, await repository.closure(seeds))
        went = _receipt(Selection(everything=True), found.closure, {}, asked.settings, asked.now)
        receipt = went.model_copy(update={"id": entry.forgetting, "target": {"journal": True}})
        return await _forget_found(session, asked, locks, found, receipt)

    return (await under_locks(session, agent_key, act, shared=True)).receipt


async def _end_again(
    session: Session,
    asked: Asked,
    agent_key: int,
    entry: Entry,
    called: Mapping[tuple[str, str], str | None],
    receipt: Receipt,
) -> Receipt:
    """Texts of messages alone. What this database has yet to form keeps its text: that asks for it once more."""
    talks = {called.get(("conversation", key), key): numbers for key, numbers in entry.ended.items()}

    async def act(locks: Locks) -> int:
        locks.need((), [key for key in talks if key is not None])
        count = 0
        for key, numbers in talks.items():
            here = ("", ()) if key is None else (key, numbers)
            done = await ending.end(session, asked.agent_id, agent_key, *here, asked.now, again=entry.forgetting)
            count += sum(map(len, done.ended.values())) if done else 0
        return count

    count = await under_locks(session, agent_key, act, shared=True)
    return receipt.model_copy(update={"target": {"journal": True}, "counts": {"messages": count}})


def _entry(receipt: Receipt, agent_id: str, found: Found, refs: tuple[str, ...]) -> Entry:
    messages: dict[str, tuple[int, ...]] = {}
    for conversation_id, number in found.closure.going.messages:
        messages[conversation_id] = (*messages.get(conversation_id, ()), number)
    return Entry(
        id=receipt.id,
        at=receipt.at,
        agent_id=agent_id,
        users=found.seeds.users,
        scopes=found.seeds.scopes,
        observations=found.closure.going.observations,
        messages=messages,
        refs=refs,
        named=tuple(one for one in found.seeds.named if one[0] != "user"),
    )


def _receipt(
    selection: Selection,
    closure: Closure,
    counts: dict[str, int],
    settings: Settings,
    now: datetime,
) -> Receipt:
    return Receipt(
        id=str(uuid.uuid4()),
        at=now,
        target=selection.named,
        dry_run=False,
        observations=tuple(observation_id(*key) for key in closure.erased.observations),
        counts=counts,
        held={kind: len(getattr(closure.withdrawn, kind)) for kind in ("observations", "messages")},
        withdrawn=tuple(observation_id(*key) for key in closure.withdrawn.observations),
        physical=Physical(statements=PHYSICAL, backups_until=moved(now, timedelta(days=settings.backup_days))),
    )
