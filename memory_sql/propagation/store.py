"""Stores claims in wider scopes, with their lineage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memory_sql.config import Settings
from memory_sql.config.kinds import CATEGORIES, EXTRA_CATEGORIES
from memory_sql.db import Session
from memory_sql.db.repositories.lineage import LineageRepository
from memory_sql.db.repositories.observations import Draft, ObservationRepository, by_rules
from memory_sql.db.repositories.propagations import PropagationRepository, Shareable
from memory_sql.db.repositories.scopes import NewScope, ScopeState
from memory_sql.db.repositories.states import StateRepository
from memory_sql.languages.dates import days_of, zone_of
from memory_sql.languages.text import content_digest
from memory_sql.propagation.offers import Loaded, Verdict


@dataclass(slots=True)
class Store:
    session: Session
    repository: PropagationRepository
    loaded: Loaded
    targets: dict[str, ScopeState]
    settings: Settings
    now: datetime
    stored: int = 0

    async def keep(self, verdicts: Sequence[Verdict]) -> list[Verdict]:
        """Returns each verdict with its target scope and, if it was stored, its number there."""
        numbers = {}
        for owner, target in self.targets.items():
            going = [item for item in verdicts if item.offer.target.owner == owner and item.text is not None]
            numbers[owner] = await self._numbers(target, going)
        owners = [item.offer.target.owner for item in verdicts]
        return [
            await self._keep(item, self.targets[owner], numbers[owner])
            for item, owner in zip(verdicts, owners, strict=True)
        ]

    async def _numbers(self, target: ScopeState, going: Sequence[Verdict]) -> dict[bytes | None, int]:
        """The numbers of these texts in the target by digest, whether they are already there or are stored now."""
        texts: dict[bytes | None, Verdict] = {}
        for item in going:
            texts.setdefault(content_digest(item.text or ""), item)
        known = await self.repository.known(target, [digest for digest in texts if digest])
        drafts = [self._draft(target, item) for digest, item in texts.items() if digest not in known]
        run_id = self.loaded.run.run_id
        saved = await ObservationRepository(self.session).save(target.agent_key, drafts, run_id=run_id, now=self.now)
        self.stored += len(saved.stored)
        return dict(known) | await self.repository.digests(saved.stored)

    def _draft(self, target: ScopeState, item: Verdict) -> Draft:
        """The draft names nobody, is as old as its source, as sure, and no less private.

        A category of the host's own stays with the source: it may tell more than the text.
        """
        source, text = item.offer.source, item.text or ""
        draft = Draft(
            scope=NewScope(target.kind, target.owner, target.name),
            content=text,
            observed_at=source.observed_at,
            source_kind="propagation",
            evidence=(),
            dates=days_of(text, source.observed_at, zone_of(self.settings.time_zone)),
            category=source.category if source.category in (*CATEGORIES, *EXTRA_CATEGORIES) else None,
            confidence=source.confidence,
            until=source.until,
        )
        return by_rules(draft, self.settings.classification)

    async def _keep(self, item: Verdict, target: ScopeState, seqs: Mapping[bytes | None, int]) -> Verdict:
        placed = replace(item, target_scope_id=target.scope_id)
        if item.text is None:
            return placed
        seq = seqs.get(content_digest(item.text))
        if seq is None:  # it is quarantined there and stays so
            return replace(placed, outcome="refused", reason="quarantined", text=None)
        if not await self.repository.made_by_propagation(target, [seq]):
            return replace(placed, reason="known", seq=seq)  # somebody there said it: it stays theirs
        sources = [source.key for source in item.offer.sources]
        whole = target.kind == "group"
        await self.repository.vouch((target.scope_id, seq), self.loaded.run.run_id, self.now)
        await LineageRepository(self.session, target.agent_key).derive(
            (target.scope_id, seq), sources, self.loaded.run.run_id, self.now, whole=whole
        )
        if whole:
            await self._replace_older(item.offer.source, target, seq)
        return replace(placed, seq=seq)

    async def _replace_older(self, source: Shareable, target: ScopeState, seq: int) -> None:
        """The source supersedes an observation: supersedes also what was derived only from that observation."""
        older = await self.repository.made_of_predecessors(source.key, target)
        if by := {one: seq for one in older if one != seq}:
            run_id = self.loaded.run.run_id
            await StateRepository(self.session).supersede(target, by, self.now, run_id=run_id)
