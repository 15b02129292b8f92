"""What a formation has in hand: a window of messages, and the scopes that what is said in it may go to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import log
from typing import Any
from zoneinfo import ZoneInfo

from memory_sql.config import Settings
from memory_sql.db.repositories.runs import AnsweredRun, RunKey
from memory_sql.db.repositories.scopes import ScopeState
from memory_sql.db.repositories.sessions import BufferedMessage, SessionState
from memory_sql.domain.ids import ScopeKind, owner_key
from memory_sql.formation.answers import OfferedScope, Turn
from memory_sql.formation.task import ExtractionTask
from memory_sql.languages.dates import zone_of
from memory_sql.languages.text import CHARACTERS_PER_TOKEN


@dataclass(frozen=True, slots=True)
class Target:
    """A scope that an observation of this session may go to. A closed one is known, so that nobody else gets its.

    `members` are those of the window's users who belong to it, of a group: only what they say goes there.
    """

    alias: str
    kind: ScopeKind
    owner: str
    display_name: str | None
    state: ScopeState | None = None
    knows: tuple[str, ...] = ()
    members: frozenset[str] = frozenset()

    @property
    def is_open(self) -> bool:
        if self.kind == "group" and not self.members:
            return False
        return self.state is None or self.state.is_active

    def takes(self, users: Collection[str]) -> bool:
        """Whether what these users say may go there, as far as it is a matter of who they are."""
        return self.kind != "group" or (bool(self.members) and self.members.issuperset(users))

    @property
    def offered(self) -> OfferedScope:
        state = self.state
        return OfferedScope(
            self.alias,
            self.kind,
            self.knows,
            guidance=state.extraction_prompt if state else None,
            max_items=state.max_items if state else None,
            max_words=state.item_words if state else None,
            display_name=(state.display_name if state else None) or self.display_name,
            isolated=state is not None and state.extraction_mode == "isolated",
        )


@dataclass(frozen=True, slots=True)
class Loaded:
    """`persons` names the users of the window for this call alone; `shown` are the epochs of what its prompt shows."""

    session: SessionState
    run: RunKey
    window: tuple[BufferedMessage, ...]
    targets: tuple[Target, ...]
    persons: dict[str, str]
    shown: dict[int, int]
    now: datetime
    answered: AnsweredRun | None
    reason: str

    @property
    def spoken(self) -> tuple[BufferedMessage, ...]:
        """What the model gets to read; empty: there is nothing to ask it."""
        return tuple(m for m in self.window if m.eligible and m.content and m.content.strip())

    @property
    def to_number(self) -> int:
        return self.window[-1].number


def remembered(seen: dict[str, Any]) -> list[Target]:
    """The targets as the model knew them: by the same names, whatever the session has become since."""
    return [Target(*target) for target in seen["targets"]]


def persons_of(state: SessionState, window: Sequence[BufferedMessage]) -> dict[str, str]:
    """`user_id` → what the model calls them: names can be alike, wrong or hostile."""
    users = list(dict.fromkeys(m.user_id for m in window if m.user_id)) or [state.user_id]
    return {user: f"P{n}" for n, user in enumerate(users, 1)}


def named_targets(state: SessionState, window: Sequence[BufferedMessage], persons: dict[str, str]) -> list[Target]:
    """The scopes of this window by the names that the model will use: its users, the session's groups, everybody.

    A group isn't named by its id: that is the host's text, of any length, and has to be copied letter by letter.
    """
    speakers = {m.user_id: m.speaker for m in window if m.user_id and m.speaker}
    named: list[Target] = []
    for user, person in persons.items():
        alias = "individual" if len(persons) == 1 else f"individual_{person}"
        named.append(Target(alias, "individual", owner_key("individual", user), speakers.get(user)))
    for n, group in enumerate(state.group_ids, 1):
        named.append(Target(f"group_{n}", "group", owner_key("group", group), group))
    return [*named, Target("collective", "collective", owner_key("collective"), None)]


def task(loaded: Loaded, settings: Settings) -> ExtractionTask:
    several, here = len(loaded.persons) > 1, zone(loaded, settings)
    turns = tuple(
        Turn(
            n,
            message.role,
            message.speaker or message.role,
            message.said_at.astimezone(here),
            message.content or "",
            person=loaded.persons.get(message.user_id or "") if several else None,
        )
        for n, message in enumerate(loaded.spoken, 1)
    )
    return ExtractionTask(
        turns,
        tuple(target.offered for target in loaded.targets if target.is_open),
        item_limit(loaded, settings.observation_max_items),
        settings.observation_max_words,
        loaded.now.astimezone(here),
    )


def zone(loaded: Loaded, settings: Settings) -> ZoneInfo:
    """Where the session's calendar days begin."""
    return zone_of(loaded.session.time_zone or settings.time_zone)


def item_limit(loaded: Loaded, most: int) -> int:
    """How many observations the window may give for a scope, where `most` is the setting.

    Grows with the logarithm of the length (R276): the setting up to 3,000 weighted characters, twice that from 12,000 on.
    Unlike in the source it doesn't shrink below: one short message may hold much.
    """
    characters = sum(message.weight for message in loaded.spoken) * CHARACTERS_PER_TOKEN
    return round(most * min(1 + log(max(characters / 3000, 1), 4), 2.0))
