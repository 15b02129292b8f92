"""Stores a plan agent by agent. Each transaction can be repeated: it finds what is already there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Literal, Protocol

from memory_sql.config import ScopeSettings, Settings
from memory_sql.config.scopes import DEFAULTS, SCOPE_SETTINGS, stored
from memory_sql.db import Session
from memory_sql.db.engine import Database
from memory_sql.db.locks import lock_agent
from memory_sql.db.principals import service
from memory_sql.db.queries.forgotten import forgotten_among, has_forgotten
from memory_sql.db.repositories.agents import agent_key_of, ensure_agent
from memory_sql.db.repositories.imports import ImportRepository, Stored
from memory_sql.db.repositories.renames import has_renamed, renamed
from memory_sql.db.repositories.scopes import NewScope, ScopeRepository
from memory_sql.domain.ids import owner_key
from memory_sql.importers import preparing
from memory_sql.importers.batches import some_of
from memory_sql.importers.drafts import AgentDraft, DuplicateDraft, GroupDraft, ObservationDraft, RowDraft, ScopeDraft
from memory_sql.importers.gone import Gone, Named
from memory_sql.importers.mongo.said import sentence_ref
from memory_sql.importers.seen import Reason, Seen, counted, whole
from memory_sql.importers.talking import Talking, TalkPlan
from memory_sql.languages.dates import zone_of
from memory_sql.languages.text import count_words

SCOPES_AT_ONCE = 200
ROWS_AT_ONCE = 250  # small enough that the garbage collector doesn't scan the same rows again and again
NOBODY = 0  # stands for an agent that doesn't exist
SHARDS = "memory_agent"
"""The collection in which each document is counted on its own, although several make one text."""


class Plan(TalkPlan, Protocol):
    """What is to be stored, in order. It may be read more than once."""

    def agents(self) -> Iterator[AgentDraft]: ...

    def extents(self) -> Mapping[str, int]:
        """Roughly how much there is to store, by agent."""

    def groups(self, agent_id: str) -> Iterator[GroupDraft]: ...

    def scopes(self, agent_id: str) -> Iterator[ScopeDraft]: ...

    def rows(self, scope: ScopeDraft) -> Iterator[RowDraft]: ...

    def owner_now(self, owner: str) -> str: ...

    def people(self, agent_id: str) -> set[str]: ...

    def named(self, agent_id: str) -> set[Named]: ...

    def sessions(self, agent_id: str) -> set[str]: ...

    def rename(self, agent_id: str, users: Mapping[str, str], sessions: Mapping[str, str]) -> None: ...

    def stand_alone(self, refs: Sequence[str]) -> None: ...


@dataclass(frozen=True, slots=True)
class Looked:
    """What an agent lacks of a scope.

    `is_new`: something. `is_whole`: everything. `makes`: more than repetitions of existing rows. `alone`: for what came
    before, but not to this scope, the reference of what says the same and comes in its place.
    """

    is_new: bool = True
    is_whole: bool = True
    makes: bool = True
    alone: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Loader:
    """`key` hashes references and isn't kept in the database. `pause`: seconds between the times at which work becomes due.

    `import_id` None: only looks. `keeps`: the connections of `database` are its own, and nobody uses them afterwards.
    """

    database: Database
    settings: Settings
    plan: Plan
    import_id: int | None
    key: bytes
    now: datetime
    pause: float = 0.0
    verification: Literal["unverified", "confirmed"] = "unverified"
    keeps: bool = False

    async def agent(self, draft: AgentDraft, due_from: datetime) -> Stored:
        """Stores all that is planned for the agent and skips what is already there. `due_from`: where the pauses begin."""
        return await self.database.write(
            lambda unit: self._agent(unit, draft.agent_id, due_from), principal=service(draft.agent_id)
        )

    async def look(self, draft: AgentDraft) -> None:
        """Tells the plan what `agent` would leave out. Nothing is written."""
        async with self.database.transaction(principal=service(draft.agent_id)) as unit:
            key = await agent_key_of(unit, draft.agent_id)
            seen = await Seen.of(ImportRepository(unit), key or NOBODY, None, self.key)
            await self._rename(unit, key or NOBODY, draft.agent_id)
            await self._leave_out_who_is_gone(unit, seen, draft.agent_id)
            await self._talking(unit, seen, self.settings).look(draft.agent_id)
            for scope in self.plan.scopes(draft.agent_id):
                await self._look(seen, scope)

    def _talking(self, unit: Session, seen: Seen, own: Settings) -> Talking:
        return Talking(unit, self.plan, seen, own, self.now, self.pause)

    async def _agent(self, unit: Session, agent_id: str, due_from: datetime) -> Stored:
        agent = await ensure_agent(unit, agent_id, self.now)
        await lock_agent(unit, agent.key)  # who is forgotten meanwhile waits, or would stay as the import brings them
        imports = ImportRepository(unit)
        await imports.open(agent.key, keeps=self.keeps)
        await self._rename(unit, agent.key, agent_id)
        seen = await Seen.of(imports, agent.key, self.import_id, self.key)
        await self._leave_out_who_is_gone(unit, seen, agent_id)
        own = self.settings.of_agent(agent.settings)
        done = Stored(due=await self._talking(unit, seen, own).store(agent_id, due_from))
        seen.has_messages = await imports.has_messages(agent.key)
        for times, drafts in enumerate(some_of(self.plan.scopes(agent_id), SCOPES_AT_ONCE)):
            if times:
                await imports.empty()
            looked = [(draft, await self._look(seen, draft)) for draft in drafts]
            if new := [(draft, found) for draft, found in looked if found.is_new]:
                from_here = due_from + timedelta(seconds=self.pause * done.due)
                done += await self._scopes(unit, seen, new, own, from_here)
        for group in self.plan.groups(agent_id):
            await self._group(unit, seen, group, own)
        if done.merged:
            own_rows = await imports.own(agent.key, self.import_id or 0, list(done.merged))
            self.plan.leave_out(dict.fromkeys(done.merged - own_rows, "here"), "merged")
        return done

    async def _rename(self, unit: Session, agent_key: int, agent_id: str) -> None:
        """Tells the plan which users and conversations have another id here: what is new of them is stored under it."""
        self.plan.rename(agent_id, {}, {})
        if await has_renamed(unit, agent_key):
            users = await renamed(unit, agent_key, "user", self.plan.people(agent_id))
            sessions = await renamed(unit, agent_key, "conversation", self.plan.sessions(agent_id))
            self.plan.rename(agent_id, users, sessions)

    async def _leave_out_who_is_gone(self, unit: Session, seen: Seen, agent_id: str) -> None:
        """Tells `seen` whom the agent has forgotten, of those whom the plan names."""
        if seen.is_new or not await has_forgotten(unit, seen.agent_key):
            return
        ids = dict(await forgotten_among(unit, seen.agent_key, self.plan.named(agent_id)))
        seen.gone = Gone(ids, ids.pop(("agent", agent_id), None))
        if seen.gone:
            for draft in self.plan.scopes(agent_id):
                seen.dropped.update(seen.gone.refs(draft, self._all_rows(draft)))

    async def _look(self, seen: Seen, draft: ScopeDraft) -> Looked:
        """Tells the plan which documents of the scope are left out, and which texts because nothing of them is new."""
        if seen.is_new:
            return Looked()
        is_whole, makes, rewritten, alone = True, False, set[str](), dict[str, str]()
        is_new = False
        for rows in some_of(self._rows_of(seen, draft), ROWS_AT_ONCE):
            left = await seen.left_out(ref for row in rows for ref in _named(row))
            self.plan.leave_out(counted({row.legacy_ref: why for row in rows if (why := _told(row, left)) is not None}))
            for row in rows:
                is_whole = is_whole and _why(row, left) is None
                coming = _coming(row, left)
                if coming is None:
                    continue
                is_new = True
                rewritten.add(whole(coming.legacy_ref))
                makes = makes or not isinstance(row, DuplicateDraft) or row.of not in left
            if away := await self._away(seen, draft, rows, left):
                makes = True
                alone = {row.of: row.legacy_ref for row in reversed(away)} | alone
        left = await seen.left_out(draft.legacy_refs)
        texts = first_of_each(draft.legacy_refs)
        self.plan.leave_out(counted({ref: left[ref] for ref in texts if ref in left and ref not in rewritten}))
        lacks = any(ref not in left for ref in draft.legacy_refs)
        self.plan.stand_alone(list(alone.values()))
        return Looked(is_new or lacks, is_whole and not left, makes or lacks, alone)

    async def _away(
        self, seen: Seen, draft: ScopeDraft, rows: Sequence[RowDraft], left: Mapping[str, Reason]
    ) -> list[DuplicateDraft]:
        """The new rows that repeat what came before, but to other scopes alone.

        Of whoever was renamed here or linked to another there, the scope of the other id is this one.
        """
        new = [row for row in rows if isinstance(row, DuplicateDraft) and row.of in left and _why(row, left) is None]
        found = await seen.imports.owners_of(seen.agent_key, draft.kind, draft.name, [row.of for row in new])
        owners = {owner for _, owner in found if self.plan.owner_now(owner) == draft.owner}
        if owners < {owner for _, owner in found}:
            owners |= await seen.imports.renamed(seen.agent_key, draft.kind, draft.owner_id)
        there = {ref for ref, owner in found if owner in owners}
        return [row for row in new if row.of not in there]

    async def _scopes(
        self, unit: Session, seen: Seen, looked: Sequence[tuple[ScopeDraft, Looked]], own: Settings, due_from: datetime
    ) -> Stored:
        imports, scopes, agent_key = ImportRepository(unit), ScopeRepository(unit), seen.agent_key
        wanted = [draft for draft, found in looked if found.makes]
        made = await imports.make_scopes([self._new(agent_key, draft, own) for draft in wanted])
        await self._prompts(unit, agent_key, wanted, made)
        places = [(draft.owner, draft.name) for draft, _ in looked]
        ours = await _locked(scopes, agent_key, places, made)
        there = [
            (draft, _place(draft, found, *ours[at]), found.alone)
            for (draft, found), at in zip(looked, places, strict=True)
            if at in ours
        ]
        rows = (
            (draft, place, _settled(row, alone)) for draft, place, alone in there for row in self._rows_of(seen, draft)
        )
        staged, numbers = 0, count(1)
        if seen.is_new:
            staged = await imports.stage_rows(self._staged(seen, rows, {}, own, numbers))
        for some in some_of(rows, ROWS_AT_ONCE):
            left = await seen.left_out(ref for _, _, row in some for ref in _named(row))
            staged += await imports.stage_rows(self._staged(seen, some, left, own, numbers))
        left = await seen.left_out(ref for draft, _, _ in there for ref in draft.legacy_refs)
        await imports.stage_texts(self._text(seen, draft, place, left) for draft, place, _ in there)
        done = await imports.store(
            agent_key,
            seen.import_id or 0,
            [place.scope_id for _, place, _ in there if place.is_begun],
            self.now,
            rows=staged,
            repeats=any(place.repeated for _, place, _ in there),
            links=seen.has_messages,
            by_rules=own.classification != "off",
        )
        ids = [place.scope_id for _, place, _ in there]
        await scopes.refresh_due(agent_key, ids, self.settings.consolidation_threshold, self.now)
        if self.pause:
            done += Stored(due=await imports.spread(agent_key, ids, due_from, self.pause))
        return done

    def _new(self, agent_key: int, draft: ScopeDraft, own: Settings) -> dict[str, Any]:
        scope = NewScope(draft.kind, draft.owner, draft.name, draft.display_name)
        return {
            **{name: DEFAULTS.get(name) for name in SCOPE_SETTINGS},
            **scope.row(own),
            **stored(ScopeSettings(**draft.settings), own),
            "agent_key": agent_key,
            "is_active": draft.is_active,
            "created_at": self.now,
            "import_id": self.import_id,
        }

    async def _prompts(
        self, unit: Session, agent_key: int, drafts: Sequence[ScopeDraft], made: Mapping[tuple[str, str], int]
    ) -> None:
        """Stores prompts only for new scopes: existing scopes keep their own."""
        rows = [
            {
                "agent_key": agent_key,
                "scope_id": made[draft.owner, draft.name],
                "name": prompt.name,
                "version": 1,
                "mode": prompt.mode,
                "body": prompt.body,
                "created_at": self.now,
                "import_id": self.import_id,
            }
            for draft in drafts
            if (draft.owner, draft.name) in made
            for prompt in draft.prompts
        ]
        if rows:
            await ImportRepository(unit).put_prompts(rows)

    async def _group(self, unit: Session, seen: Seen, draft: GroupDraft, own: Settings) -> None:
        """Adds users who have never been members. Makes no group if nobody is left to join or the group was forgotten.

        A group from an earlier import is found by its reference, even if it has been renamed.
        """
        imports, agent_key, ref = ImportRepository(unit), seen.agent_key, f"group:{draft.group_id}"
        if (await seen.left_out([ref])).get(ref) == "forgotten" or seen.gone.group(draft.group_id):
            return
        group_id = (None if seen.is_new else await imports.group_of(agent_key, ref)) or draft.group_id
        joining = await imports.joining(agent_key, group_id, seen.gone.joining(draft.user_ids))
        if not joining:
            return
        wanted = ScopeDraft(draft.agent_id, "group", group_id, "", group_id, True, None, (), None, None, draft.settings)
        made = await imports.make_scopes([{**self._new(agent_key, wanted, own), **draft.settings}])
        at = owner_key("group", group_id), ""
        scope_id, _ = (await _locked(ScopeRepository(unit), agent_key, [at], made))[at]
        await imports.note_group(agent_key, scope_id, self.import_id or 0, ref, seen.ref(ref))
        rows = [
            {
                "agent_key": agent_key,
                "scope_id": scope_id,
                "user_id": user,
                "joined_at": self.now,
                "source": "import",
                "import_id": self.import_id,
            }
            for user in joining
        ]
        await imports.put_members(rows)

    # Staging

    def _rows_of(self, seen: Seen, draft: ScopeDraft) -> Iterator[RowDraft]:
        rows = self._all_rows(draft)
        return seen.gone.rows(draft, rows, seen.dropped) if seen.gone else rows

    def _all_rows(self, draft: ScopeDraft) -> Iterator[RowDraft]:
        """A text that no row represents becomes a row itself, so that what it was made from can be found and removed."""
        rows = self.plan.rows(draft)
        first = next(rows, None)
        if draft.text is not None and (not isinstance(first, ObservationDraft) or first.state != "absorbed"):
            yield self._whole(draft, draft.text)
        if first is not None:
            yield first
        yield from rows

    def _staged(
        self,
        seen: Seen,
        rows: Iterable[tuple[ScopeDraft, preparing.Filling, RowDraft]],
        left: Mapping[str, Reason],
        own: Settings,
        numbers: Iterator[int],
    ) -> Iterator[tuple[Any, ...]]:
        zone = zone_of(own.time_zone)
        for draft, place, row in rows:
            coming = _coming(row, left) if left else row
            if coming is None:
                continue
            seen.bring(coming.legacy_ref)
            if isinstance(coming, DuplicateDraft):
                yield (next(numbers), *preparing.duplicate(draft, place, coming, seen.ref))
            else:
                yield (next(numbers), *preparing.observation(draft, place, coming, zone, seen.ref))

    def _whole(self, draft: ScopeDraft, text: str) -> ObservationDraft:
        part = draft.parts[0]
        ref = sentence_ref(part, text, None)
        return ObservationDraft(ref, text, part.written_at, "absorbed", "absorb", part.source_hash, self.verification)

    def _text(
        self, seen: Seen, draft: ScopeDraft, place: preparing.Filling, left: Mapping[str, Reason]
    ) -> tuple[Any, ...]:
        text, refs = draft.text or "", [ref for ref in draft.legacy_refs if ref not in left]
        source = hashlib.sha256(b"".join(part.source_hash for part in draft.parts)).digest()
        hashes = [seen.ref(ref) for ref in refs]
        return (
            place.scope_id, draft.text, count_words(text), place.is_told, draft.written_at, place.absorbed, refs, hashes,
            source, preparing.sha256(text),
        )  # fmt: skip


async def _locked(
    scopes: ScopeRepository, agent_key: int, places: Sequence[tuple[str, str]], made: Mapping[tuple[str, str], int]
) -> dict[tuple[str, str], tuple[int, bool]]:
    """The existing scopes by owner and name, and whether they had content before. Older scopes are locked.

    Scopes that were just `made` can't be seen by anybody else yet.
    """
    ours = {at: (scope_id, False) for at, scope_id in made.items()}
    if older := [at for at in places if at not in made]:
        for scope in await scopes.lock(agent_key, older):
            ours[scope.owner, scope.name] = scope.scope_id, bool(scope.last_seq or scope.version)
    return ours


def _place(draft: ScopeDraft, found: Looked, scope_id: int, is_begun: bool) -> preparing.Filling:
    """The text is imported if the scope had nothing before and nothing of the text was left out."""
    return preparing.Filling(scope_id, is_begun, is_told=draft.text is not None and found.is_whole and not is_begun)


def _named(row: RowDraft) -> tuple[str, ...]:
    """Its reference, then those of what says the same."""
    return (row.legacy_ref, *((row.of,) if isinstance(row, DuplicateDraft) else row.also))


def _settled(row: RowDraft, alone: Mapping[str, str]) -> RowDraft:
    """The row, if what it repeats isn't in its scope: by itself, or as a repetition of the first that is."""
    if not isinstance(row, DuplicateDraft) or row.of not in alone:
        return row
    first = alone[row.of]
    return row.alone if row.legacy_ref == first else row._replace(of=first)


def _why(row: RowDraft, left: Mapping[str, Reason]) -> Reason | None:
    """Why it is left out: itself, or because something that says the same was forgotten."""
    ref, *same = _named(row)
    return left.get(ref) or ("forgotten" if any(left.get(other) == "forgotten" for other in same) else None)


def _coming(row: RowDraft, left: Mapping[str, Reason]) -> RowDraft | None:
    """What is stored of the row. Of a record that came to other scopes alone, the sentences that it says here are."""
    why = _why(row, left)
    if why is None:
        return row
    if why == "forgotten" or isinstance(row, DuplicateDraft) or not row.also or any(ref in left for ref in row.also):
        return None
    first, *others = row.also
    return row._replace(legacy_ref=first, also=tuple(others), source_hash=preparing.sha256(row.content))


def _told(row: RowDraft, left: Mapping[str, Reason]) -> Reason | None:
    """Why the accounts count it as left out; None also for a sentence or a duplicate, which is no document of its own."""
    return _why(row, left) if isinstance(row, ObservationDraft) and row.legacy_ref == whole(row.legacy_ref) else None


def first_of_each(refs: Iterable[str]) -> list[str]:
    """The documents of a text to be counted: the first of each collection, but every shard."""
    firsts = dict[str, str]()
    for ref in refs:
        collection = ref.partition(":")[0]
        firsts.setdefault(ref if collection == SHARDS else collection, ref)
    return list(firsts.values())
