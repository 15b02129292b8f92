"""What was said in a concurrent life, by whom and where, and what must be left of it.

Every utterance contains a unique word (`TOKEN`), so whatever contains that word was made from it. Calls overlap, and some
fail after they were committed: what such a call was about may be there or not (`doubtful`). Everything else is certain:
what was acknowledged is there, and what a later forgetting selects is gone.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

TOKEN = re.compile(r"\b77\.\d{6}\b")
Named = Literal["user", "group", "conversation"]
Via = Literal["message", "observe", "update", "confirm", "import"]


@dataclass(eq=False)
class Utterance:
    """The ids are all by which it may be stored: while somebody is renamed there are two.

    `shared`: it stands in a group's scope, else in that of its user. `begun` and `acked` are moments of the ledger's clock.
    """

    token: str
    agent: str
    via: Via
    users: set[str]
    conversations: set[str]
    groups: set[str]
    shared: bool
    begun: int
    message: str | None = None
    tag: str | None = None
    fact_key: str | None = None
    acked: int | None = None
    gone: bool = False
    doubtful: bool = False
    may_stay_unformed: bool = False
    private: bool = False  # marked so by who said it: in no wider scope
    run: int | None = None  # of the import that brought it
    forgotten: bool = False  # gone by a forgetting that has returned

    @property
    def ids(self) -> dict[Named, set[str]]:
        return {"user": self.users, "group": self.groups, "conversation": self.conversations}


Choice = Callable[[Utterance], bool]


@dataclass(eq=False)
class Hold:
    """`kept`: what was certainly there, and covered, when it was granted."""

    number: int
    agent: str
    of: str
    kept: list[Utterance]


@dataclass(eq=False)
class Forgetting:
    """`takes` certainly goes; beside it what `touches` may go."""

    agent: str
    takes: Choice
    touches: Choice
    begun: int


@dataclass
class Ledger:
    utterances: list[Utterance] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    under_way: list[Forgetting] = field(default_factory=list)
    past: list[Forgetting] = field(default_factory=list)
    aliases: set[tuple[str, str, str]] = field(default_factory=set)  # agent, who ever stood for whom
    _ticks: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _tokens: Iterator[int] = field(default_factory=lambda: itertools.count(100_000))

    def now(self) -> int:
        return next(self._ticks)

    def token(self) -> str:
        return f"77.{next(self._tokens)}"

    def begin(
        self,
        token: str,
        agent: str,
        via: Via,
        user: str,
        *,
        conversation: str | None = None,
        groups: Iterable[str] = (),
        shared: bool = False,
        message: str | None = None,
        tag: str | None = None,
        fact_key: str | None = None,
    ) -> Utterance:
        """Before the call: what is forgotten or renamed meanwhile may reach it."""
        conversations = set() if conversation is None else {conversation}
        said = Utterance(
            token, agent, via, {user}, conversations, set(groups), shared, self.now(), message, tag, fact_key
        )
        said.doubtful = any(f.agent == agent and f.touches(said) for f in self.under_way)
        self.utterances.append(said)
        return said

    def acknowledge(self, said: Iterable[Utterance]) -> None:
        for utterance in said:
            utterance.acked = self.now()

    def rolled_back(self, said: Iterable[Utterance]) -> None:
        for utterance in said:
            utterance.gone = True

    def of(self, agent: str) -> Iterator[Utterance]:
        return (said for said in self.utterances if said.agent == agent)

    def standing_for(self, agent: str, user: str) -> set[str]:
        """The user, and all who ever stood for them."""
        found, more = {user}, {user}
        while more:
            more = {one for whose, one, into in self.aliases if whose == agent and into in more} - found
            found |= more
        return found

    @contextmanager
    def forgetting(self, agent: str, takes: Choice, touches: Choice) -> Iterator[Forgetting]:
        """Whatever comes of the call, what it may touch is doubtful from its begin to its end."""
        asked = Forgetting(agent, takes, touches, self.now())
        self.under_way.append(asked)
        self.doubt(agent, touches)
        try:
            yield asked
        finally:
            self.under_way.remove(asked)
            self.past.append(asked)
            self.doubt(agent, touches)

    def doubt(self, agent: str, touches: Choice) -> None:
        for said in self.of(agent):
            said.doubtful = said.doubtful or touches(said)

    def forgotten(self, asked: Forgetting) -> list[Utterance]:
        """It has returned and nothing was held."""
        found = [
            said
            for said in self.of(asked.agent)
            if said.acked is not None and said.acked < asked.begun and asked.takes(said)
        ]
        for said in found:
            said.gone = said.forgotten = True
        return found

    @contextmanager
    def renaming(self, agent: str, kind: Named, old: str, new: str) -> Iterator[None]:
        """It has either id until the call has returned; only what was said before then has lost the old one for sure."""
        begun = self.now()
        self._also(agent, kind, old, new)
        try:
            yield
        except BaseException:
            self._also(agent, kind, old, new)
            raise
        for said in self.of(agent):
            if old in said.ids[kind]:
                said.ids[kind].add(new)
                if said.acked is not None and said.acked < begun:
                    said.ids[kind].discard(old)
        self.aliases |= {(a, new if one == old else one, new if into == old else into) for a, one, into in self.aliases}

    def _also(self, agent: str, kind: Named, old: str, new: str) -> None:
        for said in self.of(agent):
            if old in said.ids[kind]:
                said.ids[kind].add(new)

    def live(self, agent: str, token: str) -> list[Utterance]:
        return [said for said in self.of(agent) if said.token == token and not said.gone]

    def gone(self) -> set[str]:
        """The words of which nothing may be left."""
        return {said.token for said in self.utterances} - {said.token for said in self.utterances if not said.gone}
