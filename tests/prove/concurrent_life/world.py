"""What the clients of a concurrent life share: names, settings, what was done and what was found."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from memory_sql.domain.selection import Selection
from memory_sql.errors import (
    BudgetError,
    BusyError,
    ConflictError,
    DatabaseError,
    HeldError,
    InputError,
    LanguageModelError,
    MovedAgentError,
    NotFoundError,
    StaleError,
    VersionError,
)
from tests.legacy.homes import Home
from tests.prove.concurrent_life.ledger import Choice, Hold, Ledger, Named

if TYPE_CHECKING:
    from tests.prove.concurrent_life.importing import Legacy

HOME = Home(("concurrent life",))
OLD = str(HOME.agent)  # has a legacy memory, too
AGENTS = ("ada", "ada", "bob", OLD)  # bob forgets everything now and then
PEOPLE, GROUPS, CONVERSATIONS, LEGACY = 5, 3, 8, 3
KINDS: tuple[Named, ...] = ("user", "group", "conversation")
CALL_SECONDS = 60.0
REFUSALS = (
    *(NotFoundError, InputError, BusyError, StaleError, VersionError, HeldError, BudgetError, LanguageModelError),
    MovedAgentError,  # over shards
)
NAMED = ("boat", "entity/quay")  # scopes beside the main ones
SETTINGS: dict[str, tuple[Any, ...]] = {
    "conversation_scope": ("buffer", "summary", "summary", "off"),
    "consolidation_threshold": (1, 3, 8, None),
    "formation_min_messages": (1, 3, None),
    "formation_messages": (2, 20, None),
    "formation_rest_minutes": (0.0, 0.001, None),
    "formation_cold_minutes": (0.0, 0.001, None),
    "propagation_interval_minutes": (0.0, 0.001, None),
    "consolidation_batch": (1, 5, None),
    "propagation": (True, False, None),
    "pending_max": (0, 20, None),
    "retention": ("budget", "none", None),
    "store_items": (5, 40, None),
}


class NothingToDoError(Exception):
    """The operation has found nothing that it could be done with."""


@dataclass
class World:
    """What all clients share. The names are those by which people, groups and conversations go now."""

    seed: int
    ledger: Ledger = field(default_factory=Ledger)
    did: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    owed: list[tuple[str, Selection, Choice, Choice]] = field(default_factory=list)  # asked to be forgotten, and held
    superseded: list[tuple[str, str, str]] = field(default_factory=list)  # agent, user, observation
    quarantined: list[tuple[str, str, str]] = field(default_factory=list)
    merged: list[tuple[str, str]] = field(default_factory=list)
    crashes: int = 0  # of the database; odd while it is away
    unjudged: frozenset[str] = frozenset()  # invariants that don't hold while everything is under way
    names: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    ever: dict[tuple[str, str, int], set[str]] = field(default_factory=dict)  # all names that somebody has had
    renamed: int = 0
    legacy: list[Legacy] = field(default_factory=list)
    importing: asyncio.Lock = field(default_factory=asyncio.Lock)
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)  # by door and public call

    def __post_init__(self) -> None:
        for agent in set(AGENTS):
            self.names[agent, "user"] = [f"u{n}" for n in range(PEOPLE)]
            self.names[agent, "group"] = [f"g{n}" for n in range(GROUPS)]
            self.names[agent, "conversation"] = [f"c{n}" for n in range(CONVERSATIONS)]
        self.names[OLD, "user"] = [str(HOME.key("user", n)) for n in range(PEOPLE)]
        self.names[OLD, "conversation"] = [str(HOME.key("session", n)) for n in range(CONVERSATIONS + LEGACY)]
        self.names[OLD, "group"][0] = "crew"
        for (agent, kind), names in self.names.items():
            for n, name in enumerate(names):
                self.ever[agent, kind, n] = {name}

    def excuses(self, error: DatabaseError, crashes: int) -> bool:
        """Whether there was no database since that many crashes, or a wait for a lock has ended, which is counted."""
        waited = isinstance(error, ConflictError) and "40P01" not in str(error)
        self.did["waits for a lock ended"] += waited
        return waited or crashes != self.crashes or crashes % 2 == 1

    def found(self, what: str) -> None:
        self.findings.append(what)
        print(f"FOUND {what}", flush=True)
