"""Results, their ids, and filters as mem0 has them. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from memory_sql.domain.observations import Observation
from memory_sql.importers.mem0.naming import conversation_of, is_stand_in, owner_of, run_of

OWN = "mem0"
IDS = ("user_id", "agent_id", "run_id")
SHOWN = (*IDS, "actor_id", "role", "attributed_to", "expiration_date")
"""What stands beside the text in a result; the rest of the metadata is the host's."""


class Whose(NamedTuple):
    """Whose memory a call is about, by mem0's ids. `owner`: the user here, or who stands for an agent or a run."""

    user: str | None
    agent: str | None
    run: str | None

    @property
    def owner(self) -> str:
        return owner_of(*self) or ""

    @property
    def conversation(self) -> str:
        return conversation_of(self.owner, self.run)

    @property
    def given(self) -> dict[str, str]:
        return {name: value for name, value in zip(IDS, self, strict=True) if value is not None}


class MemoryId(NamedTuple):
    """An id as it is handed out: it says whose memory it is, so that a call by id alone can ask for that user's own."""

    agent: str
    owner: str
    observation: str

    def __str__(self) -> str:
        return ":".join(quote(part, safe="") for part in self)

    @classmethod
    def read(cls, text: Any) -> MemoryId | None:
        """None for what is none, such as an id of mem0 itself."""
        parts = [unquote(part) for part in text.split(":")] if isinstance(text, str) else []
        return cls(*parts) if len(parts) == len(cls._fields) and all(parts) else None


def id_of(one: Observation, agent: str, owner: str) -> str:
    """It stays the same when `update` puts another observation in its place."""
    return str(MemoryId(agent, owner, next(iter(versions_of(one)), one.id)))


def item_of(one: Observation, agent: str, owner: str, *, usual: str, score: float | None = None) -> dict[str, Any]:
    """A memory as `get` returns it. `usual`: the agent of memories that name none."""
    kept, conversation = _own(one), one.source.conversation_id
    run = kept.get("run_id") or (conversation and run_of(conversation, owner)) or None
    user, named = None if is_stand_in(owner) else owner, None if agent == usual else agent
    known = {**kept, "run_id": run, "user_id": user, "agent_id": kept.get("agent_id", named)}
    shown = {name: known[name] for name in SHOWN if known.get(name) is not None}
    hosts = {name: value for name, value in one.metadata.items() if name != OWN}
    return {
        "id": id_of(one, agent, owner),
        "memory": one.content,
        "hash": hashlib.md5(one.content.encode(), usedforsecurity=False).hexdigest(),
        "metadata": hosts or None,
        "score": None if score is None else within_one(score),
        "created_at": kept.get("created_at") or one.observed_at.isoformat(),
        "updated_at": kept.get("updated_at") or one.observed_at.isoformat(),
        **shown,
    }


def within_one(score: float) -> float:
    """In the same order, from 0 to 1, as programs expect it."""
    return max(score, 0.0) / (1 + max(score, 0.0))


def _own(one: Observation) -> dict[str, Any]:
    found = one.metadata.get(OWN)
    return found if isinstance(found, dict) else {}


def versions_of(one: Observation) -> list[str]:
    """The ids of the observations that it has taken the place of by `update`, oldest first."""
    return [text for text in _own(one).get("versions", []) if isinstance(text, str)]


def is_expired(item: Mapping[str, Any], today: date) -> bool:
    last = item.get("expiration_date")
    return isinstance(last, str) and last < today.isoformat()


JOINED = ("AND", "OR", "NOT")
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda value, wanted: value == wanted,
    "ne": lambda value, wanted: value != wanted,
    "gt": lambda value, wanted: value > wanted,
    "gte": lambda value, wanted: value >= wanted,
    "lt": lambda value, wanted: value < wanted,
    "lte": lambda value, wanted: value <= wanted,
    "in": lambda value, wanted: value in wanted,
    "nin": lambda value, wanted: value not in wanted,
    "contains": lambda value, wanted: str(wanted) in str(value),
    "icontains": lambda value, wanted: str(wanted).lower() in str(value).lower(),
}


def matches(item: Mapping[str, Any], filters: Mapping[str, Any]) -> bool:
    """Whether a result passes filters, checked before; what it lacks passes none but `ne` and `nin`."""
    return all(_passes(item, key, wanted) for key, wanted in filters.items())


def _passes(item: Mapping[str, Any], key: str, wanted: Any) -> bool:
    if key in JOINED:
        found = [matches(item, one) for one in wanted]
        return all(found) if key == "AND" else any(found) if key == "OR" else not any(found)
    value = item.get(key) if key in SHOWN else (item.get("metadata") or {}).get(key)
    if wanted == "*":
        return value is not None
    if isinstance(wanted, list):
        return value in wanted
    if not isinstance(wanted, Mapping):
        return bool(value == wanted)
    return all(_compares(operator, value, against) for operator, against in wanted.items())


def _compares(operator: str, value: Any, against: Any) -> bool:
    if value is None:
        return operator in ("ne", "nin")
    try:
        return OPERATORS[operator](value, against)
    except TypeError:  # of different types
        return False
