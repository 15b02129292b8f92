"""Observations, and what is recorded about them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Literal, NamedTuple, Self

from pydantic import Field

from memory_sql.config import BUDGET_KINDS
from memory_sql.config.kinds import Lane
from memory_sql.domain.ids import ScopeId, Value, observation_id, parse_observation_id
from memory_sql.domain.layer import ScopeRef
from memory_sql.domain.positions import position
from memory_sql.errors import InputError, TooLargeError
from memory_sql.languages.text import clean
from memory_sql.privacy import Sensitivity as Sensitivity

SourceKind = Literal["formation", "observe", "propagation", "import"]


Verification = Literal["unverified", "confirmed", "disputed"]
Stage = Literal["candidate", "validated", "active", "stale", "archived"]
Tier = Literal["hot", "cold"]
Policy = Literal["ephemeral", "durable", "protected"]
Resolution = Literal["fulfilled", "expired"]


class Source(Value):
    """Where an observation comes from. `message_ids` are the host's ids, oldest first."""

    kind: str
    conversation_id: str | None = None
    speaker: str | None = None
    message_ids: tuple[str, ...] = ()
    run_id: int | None = None


class Lifecycle(Value):
    """How alive an observation is: `stage` and `tier` as of the last sweeps, `heat`, `decay` and `value` now, from 0 to 1.

    `policy`: protected is never archived by a rule. `uses`: how often a search found it and the result showed it, within
    `count_days`; `last_used_at`: the beginning of the last day (UTC) of that, or None.
    """

    stage: Stage
    tier: Tier
    policy: Policy
    heat: float
    decay: float
    value: float
    uses: int
    last_used_at: datetime | None = None


class Observation(Value):
    """One remembered statement. `id` is `o<scope>-<seq>` and local to a database. None: not known or not classified.

    The text never changes; `version` rises with each change of the other fields, for `if_version`. `superseded_by` is the id
    of the observation that superseded it. `given_at` is the time that the host gave, if that was more than a day ahead;
    `observed_at` is then when it was stored. `said_again_at`: when it was said last, if that was later than `observed_at`. A
    `no_propagate` or `confidential` observation never leaves its scope. `proposed`: extraction meant it for everybody
    (`collective`) or a group (its scope, `s12`), and propagation decides. `lane` `buffer`: it is kept while it is among its
    scope's newest, and never goes into the text. `classified_by`: the version of the rules that gave `kind` and
    `importance`; 0: they are about to; None: one of these is the host's, or neither is known. `until`: the day on which what
    it says is over. `resolved`: how it ended; it is archived then. `lifecycle`: only from `observations.get(explain=True)`.
    """

    id: str
    scope: ScopeRef
    content: str
    observed_at: datetime
    given_at: datetime | None = None
    said_again_at: datetime | None = None
    created_at: datetime
    status: str
    pending: bool
    category: str | None = None
    kind: str | None = None
    confidence: float | None = None
    importance: float | None = None
    classified_by: int | None = None
    until: date | None = None
    sensitivity: Sensitivity
    no_propagate: bool = False
    confidential: bool = False
    proposed: str | None = None
    lane: Lane = "absorb"
    verification: Verification = "unverified"
    resolved: Resolution | None = None
    superseded_by: str | None = None
    fact_key: str | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict)
    source: Source
    version: int = 1
    lifecycle: Lifecycle | None = None

    @property
    def said_at(self) -> datetime:
        """When it was said last."""
        return self.said_again_at or self.observed_at

    @property
    def position(self) -> str:
        """Where a page that ends with it ends, for `before=` of `observations.list`, also after it has been forgotten."""
        return position(max(self.created_at, self.said_again_at or self.created_at), *parse_observation_id(self.id))

    @property
    def ended(self) -> str | None:
        """What it came to, in words, if it is resolved."""
        if self.resolved != "expired":
            return self.resolved
        return f"was planned until {self.until}" if self.until else "over"


SET_ASIDE = {
    "quarantined": "quarantined",
    "given_up": "set aside as work that was given up",
    "withdrawn": "withdrawn: it was forgotten, but a legal hold keeps it",
}
"""The states in which no user sees an observation (as in `memory.is_aside`), in words."""


def budget_kind(kind: str | None, *, has_key: bool) -> str:
    """Which budget an observation counts against: its kind; if unclassified, fact if it has a key, else note."""
    return kind if kind in BUDGET_KINDS else "fact" if has_key else "note"


class Candidate(NamedTuple):
    """An observation that a digest may contain, with the fields that its line shows. `kind` None: not classified."""

    scope: ScopeRef
    seq: int
    content: str
    observed_at: datetime
    source_kind: str
    conversation_id: str | None = None
    message_ids: tuple[str, ...] = ()
    kind: str | None = None
    confidence: float | None = None
    importance: float | None = None
    sensitivity: str = "private"
    verification: str = "unverified"
    status: str = "active"
    fact_key: str | None = None
    tags: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return observation_id(self.scope.key, self.seq)

    @property
    def budget_kind(self) -> str:
        return budget_kind(self.kind, has_key=self.fact_key is not None)

    @classmethod
    def of(cls, observation: Observation) -> Self:
        o = observation
        return cls(
            scope=o.scope,
            seq=parse_observation_id(o.id)[1],
            content=o.content,
            observed_at=o.said_at,
            source_kind=o.source.kind,
            conversation_id=o.source.conversation_id,
            message_ids=o.source.message_ids,
            kind=o.kind,
            confidence=o.confidence,
            importance=o.importance,
            sensitivity=o.sensitivity,
            verification=o.verification,
            status=o.status,
            fact_key=o.fact_key,
            tags=o.tags,
        )


class Marked(Value):
    """An observation with its new privacy. `retracted`: what was derived from it and was erased.

    `withdrawn`: what was derived from it and is kept by a legal hold, out of use until the hold ends. `withheld` as in
    `Receipt`.
    """

    observation: Observation
    retracted: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()
    withheld: tuple[ScopeId, ...] = ()


class SetAside(Value):
    """The ids of the observations that were quarantined or released, with those derived from them.

    `retracted`: what was merged from them and others, and was erased; the others are judged again. `standing`: what had given
    way to something quarantined and stands again. `withheld`: the scopes whose texts wait to be rewritten.
    """

    observations: tuple[str, ...]
    retracted: tuple[str, ...] = ()
    standing: tuple[str, ...] = ()
    withheld: tuple[ScopeId, ...] = ()


def storable_metadata(metadata: Mapping[str, Any], max_characters: int) -> dict[str, Any]:
    """The metadata as jsonb can store it. Raises `InputError` if it isn't valid JSON, `TooLargeError` if it is too large."""
    try:
        encoded = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
        if len(encoded) > max_characters:
            raise TooLargeError("metadata", len(encoded), max_characters)
        cleaned = _clean_json(json.loads(encoded))
    except RecursionError:
        raise InputError("metadata is nested too deeply") from None
    except (TypeError, ValueError) as error:
        if "Circular" in str(error):
            raise InputError("metadata contains itself") from None
        raise InputError(_not_json("metadata", metadata) or "metadata must be a JSON object") from None
    if not isinstance(cleaned, dict):
        raise InputError("metadata must be a JSON object")
    return cleaned


def _not_json(where: str, value: object) -> str:
    """What JSON can't hold, and where: the first such value or key, never itself."""
    if value is None or isinstance(value, str | bool | int):
        return ""
    if isinstance(value, float):
        return "" if math.isfinite(value) else f"{where} is {value}, which JSON can't hold"
    if isinstance(value, list | tuple):
        return next(filter(None, (_not_json(f"{where}[{n}]", item) for n, item in enumerate(value))), "")
    if not isinstance(value, dict):
        return f"{where} is of type {type(value).__name__}, which JSON can't hold"
    if wrong := next((key for key in value if not isinstance(key, str | int | float | None)), None):
        return f"{where} has a key of type {type(wrong).__name__}; JSON has only texts"
    return next(filter(None, (_not_json(_within(where, key), item) for key, item in value.items())), "")


def _within(where: str, key: object) -> str:
    """A key that isn't a name may be somebody's words."""
    return f'{where}["{key}"]' if isinstance(key, str) and key.isidentifier() and len(key) <= 30 else f"{where}[…]"


def _clean_json(value: Any) -> Any:
    match value:
        case str():
            return clean(value)[0]
        case list():
            return [_clean_json(item) for item in value]
        case dict():
            return {clean(key)[0]: _clean_json(item) for key, item in value.items()}
        case _:
            return value
