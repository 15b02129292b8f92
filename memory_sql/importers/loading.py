"""A plan → the database, agent by agent, each in one transaction that can be done again and finds what is there already."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Literal, Protocol, TypeVar

from memory_sql.config import ScopeSettings, Settings
from memory_sql.config.scopes import DEFAULTS, SCOPE_SETTINGS, stored
from memory_sql.db import Session
from memory_sql.db.engine import Database
from memory_sql.db.locks import share_agent
from memory_sql.db.principals import service
from memory_sql.db.repositories.agents import ensure_agent
from memory_sql.db.repositories.imports import ImportRepository, Stored, first_of_each
from memory_sql.db.repositories.scopes import NewScope, ScopeRepository, ScopeState
from memory_sql.db.staging import STAGED
from memory_sql.domain.ids import owner_key
from memory_sql.importers.mongo.drafts import (
    AgentDraft,
    DuplicateDraft,
    GroupDraft,
    ObservationDraft,
    RowDraft,
    ScopeDraft,
)
from memory_sql.languages.dates import days_of, zone_of
from memory_sql.languages.text import content_digest, count_words
from memory_sql.languages.words import search_extra
from memory_sql.privacy.classify import classify

SCOPES_AT_ONCE = 200
T = TypeVar("T")


class Plan(Protocol):
    """What is to be stored, in order; may be gone through more than once."""

    def agents(self) -> Iterator[AgentDraft]: ...

    def groups(self, agent_id: str) -> Iterator[GroupDraft]: ...

    def scopes(self, agent_id: str) -> Iterator[ScopeDraft]: ...

    def rows(self, scope: ScopeDraft) -> Iterator[RowDraft]: ...


@dataclass(frozen=True, slots=True)
class Loader:
    """`key` is that of references, and lies outside of the database. What becomes due is so `pause` seconds apart."""

    database: Database
    settings: Settings
    plan: Plan
    import_id: int
    key: bytes
    now: datetime
    pause: float = 0.0
    verification: Literal["unverified", "confirmed"] = "unverified"

    async def agent(self, draft: AgentDraft) -> Stored:
        """All that is planned for the agent; what is here already is passed over."""
        return await self.database.write(
            lambda unit: self._agent(unit, draft.agent_id), principal=service(draft.agent_id)
        )

    async def _agent(self, unit: Session, agent_id: str) -> Stored:
        agent = await ensure_agent(unit, agent_id, self.now)
        await share_agent(unit, agent.key)
        await ImportRepository(unit).open()
        own, done = self.settings.of_agent(agent.settings), Stored()
        forgets = await ImportRepository(unit).has_forgotten(agent.key)
        for scopes in _some(self.plan.scopes(agent_id), SCOPES_AT_ONCE):
            left, gone = await self._left(unit, agent.key, scopes) if forgets else (scopes, frozenset[str]())
            done += await self._scopes(unit, agent.key, left, own) if left else Stored()
            done += Stored(forgotten=gone)
        for group in self.plan.groups(agent_id):
            await self._group(unit, agent.key, group, own)
        return done

    async def _left(
        self, unit: Session, agent_key: int, drafts: Sequence[ScopeDraft]
    ) -> tuple[list[ScopeDraft], frozenset[str]]:
        """Those of which not everything has been forgotten here, and the documents of the others.

        Of these nothing is made: no name of the user, no prompt.
        """
        left, gone = list[ScopeDraft](), set[str]()
        for draft in drafts:
            rows = list(self.plan.rows(draft))
            refs = [*draft.legacy_refs, *(row.legacy_ref for row in rows)]
            hashes = {self._ref(ref) for ref in refs}
            if hashes - await ImportRepository(unit).forgotten_among(agent_key, list(hashes)):
                left.append(draft)
            else:
                gone |= first_of_each((0, ref) for ref in draft.legacy_refs)
                gone |= {
                    row.legacy_ref for row in rows if isinstance(row, ObservationDraft) and "#" not in row.legacy_ref
                }
        return left, frozenset(gone)

    async def _scopes(self, unit: Session, agent_key: int, drafts: Sequence[ScopeDraft], own: Settings) -> Stored:
        imports, scopes = ImportRepository(unit), ScopeRepository(unit)
        rows = [self._new(agent_key, draft, own) for draft in drafts]
        made = await imports.make_scopes(rows)
        await self._prompts(unit, agent_key, drafts, made)
        places = [(draft.owner, draft.name) for draft in drafts]
        locked = {(state.owner, state.name): state for state in await scopes.lock(agent_key, places)}
        ids = [state.scope_id for state in locked.values()]
        known = Known(self.import_id, await imports.known(agent_key, ids))
        staged = (
            row
            for draft, place in zip(drafts, places, strict=True)
            for row in self._rows(draft, locked[place], own, known)
        )
        texts = [self._text(draft, locked[place]) for draft, place in zip(drafts, places, strict=True)]
        await imports.stage(staged, texts)
        done = await imports.store(agent_key, self.import_id, self.now)
        done += Stored(known=frozenset(known.documents))
        await scopes.refresh_due(agent_key, ids, self.settings.consolidation_threshold, self.now)
        if self.pause:
            await imports.spread(agent_key, ids, self.pause, self.now)
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
        """Of scopes that weren't there: what another says to its models stays."""
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

    async def _group(self, unit: Session, agent_key: int, draft: GroupDraft, own: Settings) -> None:
        """With those who have never been members of it; none where nobody is left to be one."""
        imports, owner = ImportRepository(unit), owner_key("group", draft.group_id)
        joining = await imports.joining(agent_key, draft.group_id, draft.user_ids)
        if not joining:
            return
        wanted = ScopeDraft(
            draft.agent_id, "group", draft.group_id, "", draft.group_id, True, None, (), None, None, draft.settings
        )
        await imports.make_scopes([{**self._new(agent_key, wanted, own), **draft.settings}])
        (scope,) = await ScopeRepository(unit).lock(agent_key, [(owner, "")])
        rows = [
            {
                "agent_key": agent_key,
                "scope_id": scope.scope_id,
                "user_id": user,
                "joined_at": self.now,
                "source": "import",
                "import_id": self.import_id,
            }
            for user in joining
        ]
        await imports.put_members(rows)

    # What is staged

    def _rows(self, draft: ScopeDraft, scope: ScopeState, own: Settings, known: Known) -> Iterator[tuple[Any, ...]]:
        for row in self._with_text(draft):
            if known.holds(scope.scope_id, row):
                continue
            if isinstance(row, DuplicateDraft):
                yield self._duplicate(draft, scope, row)
            else:
                yield self._observation(draft, scope, row, own)

    def _with_text(self, draft: ScopeDraft) -> Iterator[RowDraft]:
        """A text of which no row says anything is one itself: what it was made of can be found, and taken out."""
        rows = self.plan.rows(draft)
        first = next(rows, None)
        if draft.text is not None and (not isinstance(first, ObservationDraft) or first.state != "absorbed"):
            yield self._whole(draft, draft.text)
        if first is not None:
            yield first
        yield from rows

    def _whole(self, draft: ScopeDraft, text: str) -> ObservationDraft:
        part = draft.parts[0]
        return ObservationDraft(
            f"{part.legacy_ref}#0", text, part.written_at, "absorbed", "absorb", part.source_hash, self.verification
        )

    def _observation(
        self, draft: ScopeDraft, scope: ScopeState, row: ObservationDraft, own: Settings
    ) -> tuple[Any, ...]:
        found = classify(row.content)
        days = days_of(row.content, row.observed_at, zone_of(own.time_zone))
        beside = dict.fromkeys(f"{day}" for span in days for day in span)
        return _staged(
            scope_id=scope.scope_id,
            legacy_ref=row.legacy_ref,
            content=row.content,
            observed_at=row.observed_at,
            given_at=row.given_at,
            conversation_id=row.conversation_id,
            message_ids=list(row.message_ids),
            users=_people(draft, row),
            lane=row.lane,
            state=row.state,
            verification=row.verification,
            sensitivity=found.sensitivity,
            categories=list(found.categories),
            metadata=json.dumps(dict(row.metadata)),
            digest=content_digest(row.content),
            search_extra=" ".join(filter(None, (search_extra(row.content), *beside))),
            dates=f"{{{','.join(f'[{span.first},{span.last}]' for span in days)}}}" if days else None,
            source_hash=row.source_hash,
            stored_hash=_sha256(row.content),
            ref_hash=self._ref(row.legacy_ref),
            also=list(row.also),
            also_hashes=[self._ref(ref) for ref in row.also],
        )

    def _duplicate(self, draft: ScopeDraft, scope: ScopeState, row: DuplicateDraft) -> tuple[Any, ...]:
        return _staged(
            scope_id=scope.scope_id,
            legacy_ref=row.legacy_ref,
            of_ref=row.of,
            users=_people(draft, row),
            source_hash=row.source_hash,
            stored_hash=row.source_hash,
            ref_hash=self._ref(row.legacy_ref),
        )

    def _text(self, draft: ScopeDraft, scope: ScopeState) -> tuple[Any, ...]:
        text, refs = draft.text or "", list(draft.legacy_refs)
        source = hashlib.sha256(b"".join(part.source_hash for part in draft.parts)).digest()
        hashes = [self._ref(ref) for ref in refs]
        return scope.scope_id, draft.text, count_words(text), refs, hashes, source, _sha256(text)

    def _ref(self, ref: str) -> bytes:
        return hmac.digest(self.key, ref.encode(), "sha256")


@dataclass(slots=True)
class Known:
    """What is here already: by scope the references, and which import has brought each.

    `documents` are those of them that another import has brought, as rows of their own; they gather as rows are asked for.
    """

    import_id: int
    refs: Mapping[int, Mapping[str, int]]
    documents: set[str] = field(default_factory=set)

    def holds(self, scope_id: int, row: RowDraft) -> bool:
        """Of a text that is known its sentences are, whatever they are by now."""
        refs = self.refs.get(scope_id, {})
        whole, _, sentence = row.legacy_ref.partition("#")
        by = refs.get(row.legacy_ref, refs.get(whole))
        if by is not None and by != self.import_id and not sentence and isinstance(row, ObservationDraft):
            self.documents.add(row.legacy_ref)
        return by is not None


def _staged(**values: Any) -> tuple[Any, ...]:
    return tuple(values.get(name) for name in STAGED)


def _people(draft: ScopeDraft, row: RowDraft) -> list[str]:
    """Who said it: of what is somebody's own, and names nobody, that person."""
    if row.related_users or draft.kind != "individual" or draft.owner_id is None:
        return list(row.related_users)
    return [draft.owner_id]


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _some(items: Iterator[T], most: int) -> Iterator[list[T]]:
    while chunk := list(islice(items, most)):
        yield chunk
