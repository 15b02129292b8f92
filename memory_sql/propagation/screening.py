"""Decides on claims before any model sees them: by rules, and by how many people support them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from memory_sql.config import Settings
from memory_sql.db.repositories.observations import ObservationKey
from memory_sql.db.repositories.propagations import PropagationRepository, Shareable, WiderScope, Witness
from memory_sql.db.repositories.scopes import ScopeState
from memory_sql.privacy.contact import other_contact, without_contact
from memory_sql.propagation import likeness, rules
from memory_sql.propagation.decoys import judged_languages
from memory_sql.propagation.offers import Offer, Verdict
from memory_sql.propagation.speech import language_of

ALIKE_AT_MOST = 20  # other people's observations that are compared with one claim


@dataclass(slots=True)
class Screening:
    """Looks at claims for one target before any model does."""

    repository: PropagationRepository
    scope: ScopeState
    target: WiderScope
    settings: Settings
    epochs: dict[int, int] = field(default_factory=dict)  # of the scopes read, taken before the reading
    _peers: list[int] | None = field(default=None, init=False)

    async def look_at(self, source: Shareable) -> tuple[Offer, Verdict | None]:
        """Returns the claim with its support, and the verdict if it is already decided."""
        said, source = source, _unreachable(source)
        offer = Offer(source, self.target)
        reason = rules.withheld(source.content)
        if reason is not None:
            return offer, Verdict(offer, "refused", reason)
        if self.target.kind == "group":
            return offer, await self._burst(offer, said) or self._review(offer)
        offer = Offer(source, self.target, await self._alike(said))
        decided = await self.repository.outcomes([item.key for item in offer.supports], self.target)
        if "propagated" in decided.values():
            return offer, Verdict(offer, "waiting", "known")
        supports = tuple(item for item in offer.supports if decided.get(item.key) != "refused")
        offer = replace(offer, supports=supports)
        return offer, await self.too_few(offer) or self._review(offer)

    def _review(self, offer: Offer) -> Verdict | None:
        """Holds a claim for a person if sharing is by review, or its language has no rules: an order would pass."""
        if offer.source.outcome == "released":
            return None
        if sharing_of(self.target, self.settings) == "review":
            return Verdict(offer, "held", "review")
        text = self.scope.consolidation or ""
        unknown = any(language_of(item.content, text) not in judged_languages() for item in offer.sources)
        return Verdict(offer, "held", "language") if unknown else None

    async def too_few(self, offer: Offer) -> Verdict | None:
        """Why too few people of too few groups say so; None: enough do. New users don't count; many new users are a burst."""
        people = await self._people(offer.sources)
        everybody = {person.name for group in people.values() for person in group}
        established = {person.name for group in people.values() for person in group if person.established}
        if offer.source.outcome == "released":
            established = everybody
        groups = {key[0] for key, group in people.items() if established & {person.name for person in group}}
        if len(established) >= self.settings.propagation_min_people:
            enough = len(groups) >= self.settings.propagation_min_groups
            return None if enough else Verdict(offer, "waiting", "too_few_groups")
        if len(everybody - established) >= self.settings.propagation_burst:
            return Verdict(offer, "held", "burst")
        return Verdict(offer, "waiting", "too_few_people")

    async def still_enough(self, offer: Offer) -> bool:
        """Called under the locks. Whether nobody in the count has left, been merged or been forgotten meanwhile."""
        peers = await self.repository.peers(self.scope.scope_id, self.target, self.settings.propagation_peers)
        return {item.scope_id for item in offer.supports} <= set(peers) and await self.too_few(offer) is None

    async def _burst(self, offer: Offer, said: Shareable) -> Verdict | None:
        """Holds a claim that only new users make, and many of them, for a person."""
        if offer.source.outcome == "released" or _established(await self._people(offer.sources)):
            return None
        people = await self._people((offer.source, *await self._alike(said)))
        new = {person.name for group in people.values() for person in group}
        held = not _established(people) and len(new) >= self.settings.propagation_burst
        return Verdict(offer, "held", "burst") if held else None

    async def _people(self, candidates: Iterable[Shareable]) -> dict[ObservationKey, list[Witness]]:
        keys = {candidate.key for candidate in candidates}
        return await self.repository.people(keys, self.settings.propagation_new_user_days)

    async def _alike(self, said: Shareable) -> tuple[Shareable, ...]:
        """Other people's observations that claim the same, all of it, by rule: a model's opinion doesn't count.

        `said` and they are compared before contact data is cut: otherwise different addresses would look the same.
        """
        if self._peers is None:
            self._peers = await self.repository.peers(self.scope.scope_id, self.target, self.settings.propagation_peers)
            self.epochs |= await self.repository.epochs(self._peers)
        if not self._peers:
            return ()
        source = _unreachable(said)
        found = await self.repository.alike(
            source, self._peers, self.settings.propagation_excluded_users, ALIKE_AT_MOST
        )
        others = (_unreachable(item) for item in found if not other_contact(said.content, item.content))
        return tuple(
            other
            for other in others
            if likeness.supports(other.content, source.content) and rules.withheld(other.content) is None
        )


def sharing_of(target: WiderScope, settings: Settings) -> str:
    """The group's own rule, else the agent's: auto, review or off."""
    return target.sharing or settings.sharing


def _unreachable(claim: Shareable) -> Shareable:
    """Removes contact data, which goes no further, not even to the model."""
    return replace(claim, content=without_contact(claim.content))


def _established(people: Mapping[ObservationKey, Sequence[Witness]]) -> bool:
    """Whether a user known for some time says so, or the host, who is no user."""
    return any(not group or any(person.established for person in group) for group in people.values())
