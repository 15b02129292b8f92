"""What a formation has in hand: a window of messages, and the scopes that what is said in it may go to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from memory_sql.config import Settings
from memory_sql.config.kinds import BUFFER_MAX_ITEMS, CATEGORIES, Collective, ConversationScope, Lane
from memory_sql.db.repositories.conversations import BufferedMessage, ConversationState
from memory_sql.db.repositories.runs import AnsweredRun, RunKey
from memory_sql.db.repositories.scopes import ScopeState
from memory_sql.domain.ids import ScopeKind, owner_key
from memory_sql.formation.answers import OfferedScope, Turn
from memory_sql.formation.intake import ASKS_TO_FORGET, signal_in
from memory_sql.formation.task import ExtractionTask
from memory_sql.languages.dates import zone_of


@dataclass(frozen=True, slots=True)
class Target:
    """A scope that an observation of this conversation may go to. A closed one is known, so that nobody else gets its.

    `members` are those of the window's users who belong to it, of a group: only what they say goes there, and without any
    it isn't open. `heard`: what is said here is heard by a group's members: two of them have spoken in this conversation,
    or the host shares it. `lane`: where in the scope it goes.
    """

    alias: str
    kind: ScopeKind
    owner: str
    display_name: str | None
    state: ScopeState | None = None
    knows: tuple[str, ...] = ()
    members: frozenset[str] = frozenset()
    heard: bool = False
    is_open: bool = True
    lane: Lane = "absorb"
    name: str = ""
    handle: str = ""

    @property
    def is_main(self) -> bool:
        """Its owner's main scope, by its first alias."""
        return not self.name and not self.alias.endswith(IN_BUFFER)

    @property
    def max_items(self) -> int | None:
        """None: as many as for any scope of its kind."""
        if self.state is None:
            return BUFFER_MAX_ITEMS if self.lane == "buffer" else None
        return self.state.buffer_max_items if self.lane == "buffer" else self.state.max_items

    @property
    def max_words(self) -> int | None:
        if self.state is None:
            return None
        return self.state.buffer_max_words if self.lane == "buffer" else self.state.item_words

    @property
    def by_lanes(self) -> tuple[Target, ...]:
        """Once for each lane that the scope has: the model chooses by the alias, and never names a lane."""
        if self.state is None or not self.is_open:
            return (self,)
        lanes = self.state.lanes
        if lanes == "both":
            return replace(self, lane="absorb"), replace(self, alias=f"{self.alias}{IN_BUFFER}", lane="buffer")
        return (replace(self, lane=lanes),)

    @property
    def offered(self) -> OfferedScope:
        state = self.state
        if state is None:
            return OfferedScope(
                self.alias,
                self.kind,
                self.knows,
                max_items=self.max_items,
                lane=self.lane,
                display_name=self.display_name,
                handle=self.handle,
            )
        words = state.own_words("extraction")
        return OfferedScope(
            self.alias,
            self.kind,
            self.knows,
            words=words,
            told=words.told(state.scope_id) if words else "",
            min_items=state.buffer_min_items if self.lane == "buffer" else state.min_items,
            max_items=self.max_items,
            max_words=self.max_words,
            lane=self.lane,
            name=self.name,
            handle=self.handle,
            display_name=state.display_name or self.display_name,
            isolated=state.is_isolated,
            model=state.extraction_model,
        )


@dataclass(frozen=True, slots=True)
class Window:
    """Messages that are read together, and what follows from them alone.

    `spoken` is what the model gets to read; where it is empty there is nothing to ask. `persons` names the users for this
    call: names can be alike, wrong or hostile. `owners` are the owners of their scopes. `zone` is where the conversation's
    calendar days begin. `resumed`: `named` are the scopes that a stored answer was asked about, and no other.
    """

    messages: tuple[BufferedMessage, ...]
    spoken: tuple[BufferedMessage, ...]
    persons: dict[str, str]
    owners: dict[str, str]
    named: tuple[Target, ...]
    zone: ZoneInfo
    resumed: bool = False

    def people(self, silent: Sequence[Target]) -> dict[str, str]:
        """The users by the names that the model has for them, members who say nothing included."""
        named = {person: user for user, person in self.persons.items()}
        return named | {target.alias.removeprefix(PERSON): target.owner.partition(":")[2] for target in silent}


@dataclass(frozen=True, slots=True)
class Loaded:
    """`targets` are those of the window, with what is in them; `shown` are the epochs of what the prompt shows."""

    conversation: ConversationState
    run: RunKey
    window: Window
    targets: tuple[Target, ...]
    shown: dict[int, int]
    now: datetime
    answered: AnsweredRun | None
    reason: str

    @property
    def silent(self) -> tuple[Target, ...]:
        """The scopes of members of the conversation's groups who say nothing in the window."""
        speak = {*self.window.owners.values()}
        return tuple(target for target in self.targets if target.kind == "individual" and target.owner not in speak)

    @property
    def people(self) -> dict[str, str]:
        return self.window.people(self.silent)

    @property
    def names(self) -> frozenset[str]:
        """By which the model and the host know people here."""
        speakers = (message.speaker for message in self.window.messages)
        mains = (target.display_name for target in self.targets if target.kind == "individual" and target.is_main)
        return frozenset({*self.people.values(), *filter(None, (*speakers, *mains))})

    @property
    def called(self) -> frozenset[str]:
        """By which the prompt names people and scopes: no word of a message's."""
        offered = (name for one in self.targets for name in (one.display_name, one.name, one.handle))
        return self.names.union(filter(None, offered))


MOST_NAMED = 10  # scopes beside the main ones that a prompt offers
PERSON = "individual_"
NAMED = "named_"
IN_BUFFER = "_latest"  # of the alias of a scope that has both lanes


def window_of(
    state: ConversationState,
    messages: Sequence[BufferedMessage],
    settings: Settings,
    seen: Mapping[str, Any] | None,
    members: Mapping[str, str],
    groups: Sequence[str],
) -> Window:
    """`seen`: where a stored answer is gone on with, what its prompt showed. `members`: the names of the groups' members.

    `groups`: the conversation's, or those that what is said to the agent alone may be proposed to.
    """
    spoken = tuple(m for m in messages if m.eligible and m.content and m.content.strip())
    users = list(dict.fromkeys(m.user_id for m in messages if m.user_id)) or [state.user_id]
    persons = {user: f"P{n}" for n, user in enumerate(users, 1)}
    owners = {user: owner_key("individual", user) for user in users}
    itself = _itself(state.conversation_id, settings.conversation_scope)
    if seen is not None:
        named = _remembered(seen, owners, itself)
    else:
        named = _named(groups, messages, persons, owners, members)
        named += [itself] if settings.conversation_scope != "off" else []
    return Window(
        tuple(messages),
        spoken,
        persons,
        owners,
        tuple(named),
        zone_of(state.time_zone or settings.time_zone),
        resumed=seen is not None,
    )


def _remembered(seen: Mapping[str, Any], owners: Mapping[str, str], itself: Target) -> list[Target]:
    """The targets as the model knew them: by the same names, whatever the conversation has become since."""
    speak = {*owners.values()}
    return [
        replace(itself, alias=alias, owner=owner, display_name=called, name=name)
        if kind == "conversation"
        else Target(alias, kind, owner, called, is_open=kind == "collective" or owner in speak, name=name)
        for alias, kind, owner, called, name in seen["targets"]
    ]


def _itself(conversation_id: str, scope: ConversationScope) -> Target:
    """The conversation's own scope: who took part has heard what goes there."""
    owner = owner_key("conversation", conversation_id)
    return Target(
        "conversation", "conversation", owner, None, heard=True, lane="buffer" if scope == "buffer" else "absorb"
    )


def beside(window: Window, scopes: Sequence[ScopeState], here: Collection[str], collective: Collective) -> list[Target]:
    """Targets for the named scopes among these, of those who speak, of the groups in whose conversation this is (`here`).

    Of everybody's only where what is filed for everybody is stored at once: no propagation goes into a named one. A resumed
    window knows what it asked about.
    """
    mains = {target.owner: target for target in window.named if target.is_open or target.owner in here}
    chosen = [
        scope
        for scope in scopes
        if scope.name
        and scope.is_active
        and scope.owner in mains
        and (scope.kind != "collective" or collective == "direct")
    ]
    called = {scope.owner: scope.display_name for scope in scopes if scope.kind == "group" and not scope.name}
    return [
        replace(
            mains[scope.owner],
            alias=f"{NAMED}{n}",
            display_name=scope.display_name,
            name=scope.name,
            handle=called.get(scope.owner) or mains[scope.owner].handle,
        )
        for n, scope in enumerate([] if window.resumed else chosen[:MOST_NAMED], 1)
    ]


def as_asked(targets: Iterable[Target]) -> list[tuple[str, ScopeKind, str, str | None, str]]:
    """As a run notes them, so that whoever goes on with its answer finds the same scopes behind the same aliases."""
    first = {(target.owner, target.name): target for target in reversed(list(targets))}
    return [(t.alias, t.kind, t.owner, t.display_name, t.name) for t in reversed(first.values())]


def _named(
    groups: Sequence[str],
    messages: Sequence[BufferedMessage],
    persons: Mapping[str, str],
    owners: Mapping[str, str],
    members: Mapping[str, str],
) -> list[Target]:
    """The scopes by the names that the model will use: the users', the groups', everybody's.

    Those of members who say nothing take nothing in; they are there for the names of their owners.

    A group isn't named by its id: that is the host's text, of any length, and has to be copied letter by letter.
    """
    speakers = {m.user_id: m.speaker for m in messages if m.user_id and m.speaker}
    named: list[Target] = []
    for user, person in persons.items():
        alone = len(persons) == 1
        alias, handle = ("individual", "P1, the user,") if alone else (f"{PERSON}{person}", person)
        named.append(Target(alias, "individual", owners[user], speakers.get(user), handle=handle))
    silent = ((user, name) for user, name in members.items() if user not in persons)
    for n, (user, name) in enumerate(silent, len(persons) + 1):
        named.append(Target(f"{PERSON}P{n}", "individual", owner_key("individual", user), name, is_open=False))
    for n, group in enumerate(groups, 1):
        named.append(Target(f"group_{n}", "group", owner_key("group", group), group, is_open=False))
    return [*named, Target("collective", "collective", owner_key("collective"), None)]


def task(loaded: Loaded, settings: Settings) -> ExtractionTask:
    window = loaded.window
    several = len(window.persons) > 1
    turns = tuple(
        Turn(
            n,
            message.role,
            message.speaker or message.role,
            message.said_at.astimezone(window.zone),
            message.content or "",
            person=window.persons.get(message.user_id or "") if several else None,
            signals=signal_in(message.role, message.content or "") not in (None, ASKS_TO_FORGET),
        )
        for n, message in enumerate(window.spoken, 1)
    )
    return ExtractionTask(
        turns,
        tuple(target.offered for target in loaded.targets if target.is_open),
        settings.observation_max_items,
        settings.observation_max_words,
        turns[-1].said_at if turns else loaded.now.astimezone(window.zone),
        group_items=settings.group_max_items,
        silent={one.alias.removeprefix(PERSON): one.display_name for one in loaded.silent if one.display_name},
        cues=settings.search_cues,
        requests=settings.spoken_requests != "off",
        categories=(*CATEGORIES, *settings.categories) if settings.classification == "model" else (),
        topics=settings.episodes,
    )
