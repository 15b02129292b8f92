"""The claims offered to wider scopes, and the verdicts on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from memory_sql.db.repositories.propagations import Shareable, WiderScope
from memory_sql.db.repositories.runs import RunKey
from memory_sql.db.repositories.scopes import ScopeState
from memory_sql.domain.ids import observation_id
from memory_sql.domain.results import Judged, PropagationOutcome
from memory_sql.domain.usage import NO_CALL, Usage
from memory_sql.propagation.answers import Claim, OfferedTarget
from memory_sql.propagation.task import PropagationTask

SHOWN_AT_MOST = 3  # other people's wordings of a claim, in a prompt


@dataclass(frozen=True, slots=True)
class Offer:
    """A claim and a wider scope. `supports`: observations from other groups that claim the same."""

    source: Shareable
    target: WiderScope
    supports: tuple[Shareable, ...] = ()

    @property
    def sources(self) -> tuple[Shareable, ...]:
        return self.source, *self.supports


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided on an offer. `text`: its wording in the wider scope, if it is shared there."""

    offer: Offer
    outcome: PropagationOutcome
    reason: str
    text: str | None = None
    seq: int | None = None
    target_scope_id: int | None = None

    @property
    def judged(self) -> Judged:
        target, scope_id = self.offer.target, self.target_scope_id or self.offer.target.scope_id
        made = None if scope_id is None or self.seq is None else observation_id(scope_id, self.seq)
        return Judged(
            source=observation_id(*self.offer.source.key),
            target=target.group_id or target.kind,
            target_scope_id=scope_id,
            outcome=self.outcome,
            reason=self.reason,
            text=self.text,
            observation=made,
            sources=tuple(observation_id(*item.key) for item in self.offer.sources),
        )


@dataclass(frozen=True, slots=True)
class Names:
    """`people`: names forbidden in a rewritten text. `things`: names of groups, allowed even if people have them."""

    people: frozenset[str] = frozenset()
    things: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Loaded:
    """`offers` go to the model; `verdicts` were decided without it. `names`: what the rewritten texts must not contain.

    `more`: there may be further claims that haven't been judged.
    """

    scope: ScopeState
    run: RunKey
    offers: tuple[Offer, ...]
    verdicts: tuple[Verdict, ...]
    names: Names
    epochs: dict[int, int]
    more: bool
    reason: str
    now: datetime


@dataclass(frozen=True, slots=True)
class Decided:
    """`missed`: the number of answers with a wrongly judged decoy before the one that was accepted."""

    verdicts: tuple[Verdict, ...]
    usage: Usage = NO_CALL
    prompt_version: str = ""
    missed: int = 0


def task(loaded: Loaded) -> PropagationTask:
    """Contains each observation once, however many scopes it is offered to."""
    aliases = aliases_of(loaded.offers)
    claims = []
    for n, source in enumerate(sources_of(loaded.offers), 1):
        mine = [offer for offer in loaded.offers if offer.source.key == source.key]
        also = [other.content for offer in mine for other in offer.supports]
        to = tuple(aliases[offer.target.owner] for offer in mine)
        claims.append(Claim(n, source.content, source.observed_at, to, tuple(also[:SHOWN_AT_MOST])))
    targets = {offer.target.owner: offer.target for offer in loaded.offers}
    offered = tuple(
        OfferedTarget(aliases[owner], target.kind, target.display_name or target.group_id)
        for owner, target in targets.items()
    )
    return PropagationTask(tuple(claims), offered, loaded.now)


def sources_of(offers: Sequence[Offer]) -> list[Shareable]:
    return list({offer.source.key: offer.source for offer in offers}.values())


def aliases_of(offers: Sequence[Offer]) -> dict[str, str]:
    """The model's names for the wider scopes, by owner."""
    owners = dict.fromkeys(offer.target.owner for offer in offers)
    return {owner: "collective" if owner == "c" else f"group_{n}" for n, owner in enumerate(owners, 1)}
