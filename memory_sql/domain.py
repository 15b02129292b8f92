"""The values that go in and come out: frozen, validated at the edge, printed as they are by `--json`."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from memory_sql.config import BUDGET_KINDS
from memory_sql.errors import InputError, InvalidIdError, InvalidMessageError, TooLargeError
from memory_sql.languages.text import clean, one_line

ID_MAX_CHARACTERS = 255
EARLIEST, LATEST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)  # what every driver can read back
ROLES = ("user", "assistant", "agent", "system", "developer", "tool", "function")

ScopeKind = Literal["individual", "group", "collective", "session", "entity", "agent", "guideline"]
SourceKind = Literal["formation", "observe", "propagation", "import"]
Sensitivity = Literal["public", "private", "sensitive"]
Surface = Literal["context", "search", "digest"]
Verification = Literal["unverified", "confirmed", "disputed"]
MemberSource = Literal["host", "import", "inferred"]
OWNER_PREFIX: Mapping[str, str] = {
    "individual": "u:",
    "group": "g:",
    "collective": "c",
    "session": "s:",
    "entity": "e:",
    "agent": "a",
    "guideline": "p",
}


def host_id(value: object, name: str = "id") -> str:
    """The host's own id as text: a string, integer or UUID of 1–255 characters, compared character by character.

    Refused rather than changed when it would not come back as it went in: control characters, leading or trailing
    white space, anything that Unicode normalisation (NFC) would alter.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | UUID):
        raise InvalidIdError(name, f"must be text, an integer or a UUID, not {type(value).__name__}")
    if isinstance(value, int) and abs(value) >= 10**ID_MAX_CHARACTERS:
        raise InvalidIdError(name, f"must have 1 to {ID_MAX_CHARACTERS} characters")
    text = str(value)
    if not 1 <= len(text) <= ID_MAX_CHARACTERS:
        raise InvalidIdError(name, f"must have 1 to {ID_MAX_CHARACTERS} characters, not {len(text)}")
    if text != text.strip() or any(unicodedata.category(c) in ("Cc", "Cs") for c in text) or clean(text)[1]:
        raise InvalidIdError(name, "holds control characters or white space at an end")
    if unicodedata.normalize("NFC", text) != text:
        raise InvalidIdError(name, "is not in Unicode normal form C")
    return text


def owner_key(kind: ScopeKind, owner_id: str | None = None) -> str:
    """`scopes.owner`: the one key column that says whose scope it is."""
    prefix = OWNER_PREFIX[kind]
    return f"{prefix}{owner_id}" if prefix.endswith(":") else prefix


def aware(value: datetime, name: str = "time") -> datetime:
    """The moment in UTC; raises `InputError` for a naive or absurd one."""
    if not isinstance(value, datetime):
        raise InputError(f"{name} must be a datetime, not {type(value).__name__}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InputError(f"{name} needs a time zone (write 2026-03-02T10:15:00Z)")
    try:
        moment = value.astimezone(UTC)
    except OverflowError:
        raise InputError(f"{name} is out of range") from None
    if not EARLIEST <= moment < LATEST:
        raise InputError(f"{name} is out of range")
    return moment


def _id_or_none(value: object) -> str | None:
    return None if value is None else host_id(value)


def _moment(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int | datetime | None):
        raise InputError("created_at must be an ISO 8601 time with a zone, or whole seconds since 1970")
    return value


HostId = Annotated[str, BeforeValidator(host_id)]
OptionalId = Annotated[str | None, BeforeValidator(_id_or_none)]


class Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Message(BaseModel):
    """One turn, in the OpenAI chat shape; other keys are ignored.

    `content` may be a list of parts, or null beside `tool_calls`. `user_id` says which user wrote it, where that isn't
    the user whom `add` names; `name` is how the speaker is called. `trigger` names what set off a message that nobody
    wrote, a scheduled one; formation skips it. `cleaned` names what could not be stored as it came.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    role: Literal["user", "assistant", "agent", "system", "developer", "tool", "function"]
    content: str = ""
    id: OptionalId = None
    name: str | None = Field(None, max_length=ID_MAX_CHARACTERS)
    user_id: OptionalId = None
    created_at: Annotated[datetime | None, BeforeValidator(_moment)] = None
    trigger: OptionalId = None
    cleaned: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _take_text(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            raise InputError(f"must be an object, not {type(data).__name__}")
        text, changes = clean(_text_of(data.get("content"), data.get("tool_calls")))
        name = data.get("name")
        if isinstance(name, str):
            name, name_changes = clean(one_line(name))
            changes = (*changes, *name_changes)
        kept = {k: data[k] for k in ("role", "id", "user_id", "created_at", "trigger") if k in data}
        return {**kept, "content": text, "name": name or None, "cleaned": tuple(dict.fromkeys(changes))}

    @field_validator("created_at")
    @classmethod
    def _in_utc(cls, value: datetime | None) -> datetime | None:
        return None if value is None else aware(value, "created_at")

    @classmethod
    def parse(cls, data: object, position: int, max_characters: int) -> Self:
        """Raises `InvalidMessageError` or `TooLargeError`, naming the position (from 0) and no text."""
        try:
            message = data if isinstance(data, cls) else cls.model_validate(data)
        except InputError as error:
            raise InvalidMessageError(position, str(error)) from None
        except ValidationError as error:
            first = error.errors(include_input=False, include_context=False, include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise InvalidMessageError(position, f"{where}: {first['msg']}" if where else first["msg"]) from None
        if len(message.content) > max_characters:
            raise TooLargeError(f"message {position}", len(message.content), max_characters)
        return message


def _text_of(content: object, tool_calls: object) -> str:
    match content:
        case str():
            text = content
        case None:
            text = ""
        case list():
            text = "\n".join(filter(None, map(_text_of_part, content)))
        case _:
            raise InputError(f"content must be text, a list of parts or null, not {type(content).__name__}")
    return "\n".join(filter(None, (text, _text_of_calls(tool_calls))))


def _text_of_part(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
        raise InputError("a content part must be an object with a type")
    text = part.get("text", part.get("refusal"))
    return text if isinstance(text, str) else f"[{part['type']}]"


def _text_of_calls(tool_calls: object) -> str:
    if not isinstance(tool_calls, list):
        return ""
    functions = [call.get("function") for call in tool_calls if isinstance(call, Mapping)]
    names = [f["name"] for f in functions if isinstance(f, Mapping) and isinstance(f.get("name"), str)]
    return f"[used tools: {', '.join(names)}]" if names else ""


@dataclass(frozen=True, slots=True)
class Usage:
    """What model calls cost. Tokens are as the provider counts them; None where it doesn't say.

    `model` is empty while none has answered.
    """

    model: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    latency_seconds: float = 0.0
    calls: int = 1

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            other.model or self.model,
            _total(self.input_tokens, other.input_tokens),
            _total(self.output_tokens, other.output_tokens),
            self.latency_seconds + other.latency_seconds,
            self.calls + other.calls,
        )


def _total(a: int | None, b: int | None) -> int | None:
    return None if a is None and b is None else (a or 0) + (b or 0)


class ScopeRef(Value):
    """Which scope; `owner_id` is the user's, group's, session's or entity's id, None for the agent's own scopes."""

    id: int
    kind: ScopeKind
    owner_id: str | None = None
    name: str | None = None

    def __str__(self) -> str:
        parts = (self.kind, self.owner_id, self.name)
        return ":".join(part for part in parts if part)


class Scope(Value):
    """A consolidation boundary. `version` 0: nothing consolidated yet. Counts are of observations."""

    ref: ScopeRef
    display_name: str | None
    is_active: bool
    consolidation: str | None
    version: int
    observations: int
    pending: int
    created_at: datetime
    last_activity_at: datetime | None
    consolidated_at: datetime | None


@dataclass(frozen=True, slots=True)
class PendingObservation:
    """An observation that its scope's text doesn't hold yet."""

    seq: int
    content: str
    observed_at: datetime


@dataclass(frozen=True, slots=True)
class ScopeText:
    """A visible scope as the prompt shows it; pending observations oldest first.

    `disputed` are those, pending or in the text, that somebody says aren't so; `speakers` the names of who speaks.
    """

    ref: ScopeRef
    display_name: str | None
    consolidation: str | None
    version: int
    pending: tuple[PendingObservation, ...]
    disputed: tuple[PendingObservation, ...] = ()
    speakers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StaticLayer:
    """What a context is made of: the visible scopes, in no order, and the settings that the agent has of its own."""

    scopes: tuple[ScopeText, ...]
    settings: Mapping[str, Any]


class Source(Value):
    """Where an observation comes from. `message_ids` are the host's ids, oldest first."""

    kind: str
    session_id: str | None = None
    speaker: str | None = None
    message_ids: tuple[str, ...] = ()
    run_id: int | None = None


class Observation(Value):
    """One remembered thing. `id` is `o<scope>-<seq>` and local to a database. None: not known or not classified.

    Its text never changes; `version` rises with each change of what is said about it, for `if_version`. `superseded_by`
    is the id of what has taken its place. What is `no_propagate` or `confidential` never leaves its scope.
    """

    id: str
    scope: ScopeRef
    content: str
    observed_at: datetime
    created_at: datetime
    status: str
    pending: bool
    category: str | None = None
    kind: str | None = None
    confidence: float | None = None
    importance: float | None = None
    sensitivity: str
    no_propagate: bool = False
    confidential: bool = False
    verification: Verification = "unverified"
    superseded_by: str | None = None
    fact_key: str | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict)
    source: Source
    version: int = 1


def budget_kind(kind: str | None, *, has_key: bool) -> str:
    """Which budget an observation counts against: its kind; unclassified, a fact where it has a key, else a note."""
    return kind if kind in BUDGET_KINDS else "fact" if has_key else "note"


@dataclass(frozen=True, slots=True)
class Candidate:
    """An observation that a digest may hold, with what its line says of it. `kind` None: not classified."""

    scope: ScopeRef
    seq: int
    content: str
    observed_at: datetime
    source_kind: str
    session_id: str | None = None
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
        return observation_id(self.scope.id, self.seq)

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
            observed_at=o.observed_at,
            source_kind=o.source.kind,
            session_id=o.source.session_id,
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


class Contradiction(Value):
    """What a consolidation found to be said otherwise now, by numbers (`seq`) of its scope's observations.

    `older` None: the text had said it. `was` and `now` are the model's words, short; None where it gave none.
    """

    newer: int
    older: int | None = None
    was: str | None = None
    now: str | None = None


class Consolidation(Value):
    """One immutable version of a scope's text, made of the observations `(from_seq, to_seq]` and of version `base`."""

    scope: ScopeRef
    version: int
    base: int
    from_seq: int
    to_seq: int
    live: bool
    content: str
    words: int
    model: str | None
    reason: str
    run_id: int | None
    created_at: datetime
    contradictions: tuple[Contradiction, ...] = ()


class Sentence(Value):
    """One sentence of two versions of a text."""

    change: Literal["kept", "removed", "added"]
    text: str


class Diff(Value):
    """What makes version `to_version` of a scope's text another than `from_version` (0: before there was a text).

    `sentences` are in the order of the texts; of one that was rewritten the old wording comes first. `absorbed`: the ids
    of the observations that only the later text holds; `given_back`: those that only the earlier one held (undone).
    """

    scope: ScopeRef
    from_version: int
    to_version: int
    sentences: tuple[Sentence, ...]
    absorbed: tuple[str, ...] = ()
    given_back: tuple[str, ...] = ()


class AddResult(Value):
    """`cleaned` counts messages whose text had to be changed, `masked` those in which secrets were masked; both count
    duplicates too. `trigger` says why the session is due, if it is.

    With `wait=True` a due session was formed: `run_id` and `observations` tell what came of it.
    """

    session_id: str
    accepted: int
    duplicates: int
    cleaned: int
    masked: int = 0
    trigger: str | None = None
    run_id: int | None = None
    observations: tuple[Observation, ...] = ()


class FormResult(Value):
    """`duplicates` were known already and gained evidence; `refused` counts, by reason, what the model may not do."""

    session_id: str
    run_ids: tuple[int, ...] = ()
    messages: int = 0
    observations: tuple[Observation, ...] = ()
    duplicates: int = 0
    refused: dict[str, int] = Field(default_factory=dict)
    model: str | None = None


class ConsolidateResult(Value):
    """`version` None: nothing was pending, nothing changed. `superseded` counts observations that newer ones contradict.

    Of an undo, `reinstated` counts those that count again, `left_superseded` those that don't, since the same has been said
    again.
    """

    scope: ScopeRef
    version: int | None = None
    absorbed: int = 0
    content: str | None = None
    run_id: int | None = None
    model: str | None = None
    superseded: int = 0
    reinstated: int = 0
    left_superseded: int = 0


PropagationOutcome = Literal["propagated", "refused", "waiting", "held", "released"]


class Judged(Value):
    """What was decided on one observation (`source`, by id) for one wider scope.

    `outcome`: `propagated` (as `observation`; in a dry run not yet stored, with its `text`), `refused`, `waiting` (too few
    say so yet) or `held` (for a person to look at); `reason` says why in a word. `sources` are all that it was made of.
    """

    source: str
    target: str
    target_scope_id: int | None = None
    outcome: PropagationOutcome
    reason: str
    text: str | None = None
    observation: str | None = None
    sources: tuple[str, ...] = ()


class PropagateResult(Value):
    """What a propagation decided, of one scope or, where `scope` is None, of several of an agent.

    `run_ids`: one for each batch, none where there was nothing to judge. `failed` says of which scope it failed, and why.
    """

    scope: ScopeRef | None
    judged: tuple[Judged, ...] = ()
    run_ids: tuple[int, ...] = ()
    model: str | None = None
    dry_run: bool = False
    failed: dict[str, str] = Field(default_factory=dict)

    @property
    def propagated(self) -> tuple[Judged, ...]:
        return tuple(item for item in self.judged if item.outcome == "propagated")


class HeldClaim(Value):
    """A claim that many new users made at once: it spreads when a person has released it (`Memory.review`)."""

    source: str
    content: str
    target_scope_id: int
    judged_at: datetime


class Explanation(Value):
    """Why something was found. `parts` add up to the score; `matched` are the words of the query that stand in it.

    `admitted` is what let it in: `words` of its own, `asked` (the turn before asks for it), `window` (two words of the
    query stand around it), `date` (of the time that is named), `vector` (its meaning is near the query's), `source` (an
    observation made of it was found) or `all` (the query has no words). Where places are fused and not points, `parts` are
    `text` and `vector`.
    """

    admitted: str
    parts: dict[str, float]
    matched: tuple[str, ...] = ()


class Hit(Value):
    """An observation that was found. `explanation` where it was asked for."""

    observation: Observation
    score: float
    explanation: Explanation | None = None


class RetainedMessage(Value):
    """A message whose text is still kept. `id` is the host's id within the session; `number` its place there."""

    session_id: str
    id: str
    number: int
    role: str
    speaker: str | None = None
    user_id: str | None = None
    content: str
    said_at: datetime


class MessageHit(Value):
    """A message that was found. `observations` are the ids of those made of it that the user may see, oldest first."""

    message: RetainedMessage
    score: float
    observations: tuple[str, ...] = ()
    explanation: Explanation | None = None


class SearchResult(Value):
    """Two arms, each best first: the observations, and the messages whose text is still kept; their scores compare.

    `terms` are the words that were looked for; of none, and without dates or operators, no search was made. `left_out`
    says which words were not looked for and why, `plan` how the database went about it, where either was asked for. `notice`:
    why words alone counted, where vectors should have.
    """

    results: tuple[Hit, ...] = ()
    messages: tuple[MessageHit, ...] = ()
    terms: tuple[str, ...] = ()
    fired: bool = True
    reason: str = "asked"
    left_out: dict[str, str] = Field(default_factory=dict)
    plan: tuple[str, ...] = ()
    notice: str | None = None


@dataclass(frozen=True, slots=True)
class ContextLine:
    """One line of the XML, as it stands there. `id`: the observation's; of a message the host's, in `session_id`."""

    id: str
    text: str
    session_id: str | None = None


class ContextPart(Value):
    """One element of the XML, outermost but for shards. `version`: that of its consolidated text, None without one.

    `sources` are `s<scope>v<version>` for a consolidated text, whose versions `history(scope_id=…)` tells, then the ids
    of the `lines`. `truncated`: the budget has taken some of it.
    """

    element: str
    scope: ScopeRef | None
    sources: tuple[str, ...]
    tokens: int
    version: int | None = None
    lines: tuple[ContextLine, ...] = ()
    truncated: bool = False


class Digest(Value):
    """A part of a prompt: `str(digest)` is its text, empty where it holds nothing.

    `included` are the ids of the observations that it holds, in order. `counts`: what was found by pins (`structured`), by
    words (`keyword`) and by meaning (`semantic`); of that, what is `included`, what came again (`repeated`), and what was
    left out, by reason: `kind_budget`, `total_budget`, `too_long` (its id and source alone exceed the budget),
    `sensitivity`, `disputed`, `not_active`.
    """

    text: str
    included: tuple[str, ...]
    counts: dict[str, int]

    def __str__(self) -> str:
        return self.text


class Context(Value):
    """What goes into the prompt: `str(context)` is the XML, the digest, or both, as the setting `assembly` says.

    `tokens` is an estimate (characters / 4.5). `digest` None: none was asked for; `xml` is empty where it wasn't. The
    first `stable_characters` stay the same, whatever the time, the message and what is new, until a scope's text or name,
    what may be seen, or the budget changes: the place for a prompt cache's mark. `truncated`: the budget has taken
    something from the XML. `notice`: why words alone counted in what was retrieved, where vectors should have.
    """

    xml: str
    parts: tuple[ContextPart, ...]
    tokens: int
    fired: bool
    reason: str | None = None
    stable_characters: int = 0
    truncated: bool = False
    digest: Digest | None = None
    notice: str | None = None

    def __str__(self) -> str:
        return "\n\n".join(filter(None, (self.xml, str(self.digest or ""))))

    @property
    def sources(self) -> tuple[str, ...]:
        of_parts = tuple(source for part in self.parts for source in part.sources)
        return of_parts + (self.digest.included if self.digest else ())


class RunDueResult(Value):
    """`failed` maps a session, a scope or `vectors` to the reason; it stays due and is tried again later.

    `embedded` counts observations that gained a vector.
    """

    formed: tuple[FormResult, ...] = ()
    consolidated: tuple[ConsolidateResult, ...] = ()
    propagated: tuple[PropagateResult, ...] = ()
    embedded: int = 0
    failed: dict[str, str] = Field(default_factory=dict)


class EmbedResult(Value):
    """`embedded` observations have gained a vector. `complete` False: the limit was reached, and there may be more."""

    embedded: int = 0
    complete: bool = True


class MaintainResult(Value):
    """`messages` have lost their texts, `evicted` observations were more than a budget.

    `complete` False: the limit was reached, and there may be more.
    """

    messages: int
    evicted: int = 0
    complete: bool


class Backlog(Value):
    """What waits. `due`: could be done now, and nobody is at it; `oldest_due_at`: since when the longest of them has been.

    `due_propagations` are scopes whose text has taken in what should be judged for wider ones. `retrying` failed and will be
    tried again later; `dead` was given up and waits for a person, as do the claims that are `held` (`Memory.review`).
    """

    due_sessions: int
    due_scopes: int
    due_propagations: int
    oldest_due_at: datetime | None
    in_progress: int
    retrying: int
    dead: int
    held: int


class DeadRun(Value):
    """Work that was given up after too many unusable answers; `retry` or `discard` it.

    Of a session: it stands still. Of a scope: one observation was set aside, the scope goes on without it.
    """

    run_id: int
    agent_id: str
    kind: str
    session_id: str | None
    scope_id: int | None
    error_code: str
    error: str | None
    finished_at: datetime


class Violation(Value):
    """Something that must hold at any moment, and doesn't. `invariant` names the file of its query in `db/invariants`.

    `key` names the thing; `detail` has numbers, never remembered text. `agent_id` None: it is the database's as a whole.
    """

    invariant: str
    agent_id: str | None
    key: str
    detail: str


class ForgetTarget(Value):
    """What is to be forgotten: a user, a session or a group as a whole, the whole agent, or some observations.

    A message by `message_id` and its session, with what was made of it. `observation_id`, `fact_key`, `tag`, `query` (all
    its words), `source` (formation, observe, propagation, import) and `run_id` select observations, all that are given at
    once; a user, group or session beside them narrows the choice.
    """

    user_id: str | None = None
    session_id: str | None = None
    group_id: str | None = None
    message_id: str | None = None
    observation_id: str | None = None
    fact_key: str | None = None
    tag: str | None = None
    query: str | None = None
    source: SourceKind | None = None
    run_id: int | None = None
    everything: bool = False
    actor: str | None = None
    reason: str | None = None

    @classmethod
    def of(cls, **given: Any) -> Self:
        """Raises `InputError`."""
        try:
            return cls(**given)
        except ValidationError as error:
            first = error.errors(include_input=False)[0]
            raise InputError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None

    @property
    def selects_observations(self) -> bool:
        return any(getattr(self, name) is not None for name in _SELECTORS)

    @property
    def named(self) -> dict[str, str | int | bool]:
        """The ids and words of ours that it was called with; of what may hold remembered text only that it was."""
        given = {
            name: getattr(self, name)
            for name in (*_WHOLES, "message_id", "observation_id", "source", "run_id")
            if getattr(self, name)
        }
        return given | {name: True for name in ("fact_key", "tag", "query", "everything") if getattr(self, name)}

    @model_validator(mode="after")
    def _says_what(self) -> Self:
        wholes = sum(getattr(self, name) is not None for name in _WHOLES)
        if self.everything and (wholes or self.selects_observations):
            raise InputError("everything=True stands alone")
        if self.message_id and (self.session_id is None or wholes > 1 or self.selects_observations):
            raise InputError("a message is named by message_id= and its session_id=")
        if not self.everything and not self.selects_observations and wholes != 1:
            raise InputError("say what to forget: one user, session or group, some observations, or everything=True")
        return self


_WHOLES = ("user_id", "session_id", "group_id")
_SELECTORS = ("observation_id", "fact_key", "tag", "query", "source", "run_id")


class Physical(Value):
    """When a DELETE has become an erasure: PostgreSQL keeps old row versions until these have been done.

    `statements` free the space at once (`memory-sql db vacuum` runs them); `backups_until` is when the newest backup
    that holds it will have expired, by the setting `backup_days`.
    """

    statements: tuple[str, ...]
    backups_until: datetime


class Receipt(Value):
    """What a forgetting took out. `counts` are rows by table; of messages the key stays, without a word.

    `observations` are the ids of those that went. `rebuilt`: scopes whose text has been written anew from what is left.
    `withheld`: scopes that have lost their text, or part of it, and show what is pending until it is written anew.
    `held`: what legal holds kept. `dry_run`: nothing was done; `counts` says what would have been.
    """

    id: str
    at: datetime
    target: dict[str, str | int | bool]
    dry_run: bool
    observations: tuple[str, ...]
    counts: dict[str, int]
    held: dict[str, int]
    rebuilt: tuple[int, ...] = ()
    withheld: tuple[int, ...] = ()
    physical: Physical


class Marked(Value):
    """An observation as it is marked now. `retracted`: what was made of it and had to go; `withheld` as in `Receipt`."""

    observation: Observation
    retracted: tuple[str, ...] = ()
    withheld: tuple[int, ...] = ()


class SetAside(Value):
    """The ids of what a quarantine set aside, or a release brought back, and the scopes that are to be told anew."""

    observations: tuple[str, ...]
    withheld: tuple[int, ...] = ()


class Group(Value):
    """A group of an agent's users, who share the memory of its scope. `members` counts those who belong to it now."""

    group_id: str
    scope_id: int
    display_name: str | None
    members: int
    created_at: datetime


class Member(Value):
    """A time that a user belonged to a group; `left_at` None: still. `source`: who said so."""

    group_id: str
    user_id: str
    source: MemberSource
    joined_at: datetime
    left_at: datetime | None = None


class Departure(Value):
    """Somebody isn't a member of a group any more, since `left_at`, by none of `user_ids`: those that they go by.

    `archived`: what only they had contributed. `retracted`: what was made of that in other scopes, and had to go. `held`:
    how much of this a legal hold keeps. `withheld` as in `Receipt`.
    """

    group_id: str
    user_id: str
    user_ids: tuple[str, ...]
    left_at: datetime
    archived: tuple[str, ...] = ()
    retracted: tuple[str, ...] = ()
    held: int = 0
    withheld: tuple[int, ...] = ()


class Trimmed(Value):
    """What was evicted, by kind, and from which scopes. `over`: scopes that still exceed their budgets by what is protected.

    `dry_run`: nothing was done; it says what would have been.
    """

    evicted: dict[str, int] = Field(default_factory=dict)
    scopes: tuple[int, ...] = ()
    over: tuple[int, ...] = ()
    dry_run: bool = False

    @property
    def observations(self) -> int:
        """How many were evicted."""
        return sum(self.evicted.values())


@dataclass(frozen=True, slots=True)
class Asked:
    """Queries of an agent on a day that came for the same reason, and what searching for them took; `none`: nothing."""

    agent_id: str
    day: date
    surface: Surface
    reason: str
    queries: int
    without_hit: int
    seconds: float
    slowest_seconds: float

    @classmethod
    def once(cls, agent_id: str, day: date, surface: Surface, reason: str | None, *, hits: int, seconds: float) -> Self:
        if reason is None:
            return cls(agent_id, day, surface, "none", 1, 0, 0.0, 0.0)
        return cls(agent_id, day, surface, reason, 1, int(hits == 0), seconds, seconds)

    @property
    def key(self) -> tuple[str, date, str, str]:
        return self.agent_id, self.day, self.surface, self.reason

    def plus(self, other: Self) -> Self:
        """Both together; they have the same key."""
        return replace(
            self,
            queries=self.queries + other.queries,
            without_hit=self.without_hit + other.without_hit,
            seconds=self.seconds + other.seconds,
            slowest_seconds=max(self.slowest_seconds, other.slowest_seconds),
        )


class RetrievalStats(Value):
    """How often memory was asked in the last days (`config.RETRIEVAL_DAYS`); what was counted last may be missing.

    `fired` is how many queries searched, `without_hit` how many of these found nothing. `mean_ms` and `slowest_ms`:
    milliseconds that searching took, None where nothing was searched. `reasons`: queries by why they searched; `none`:
    they did not.
    """

    queries: int = 0
    fired: int = 0
    without_hit: int = 0
    mean_ms: float | None = None
    slowest_ms: float | None = None
    reasons: dict[str, int] = Field(default_factory=dict)


class Stats(Value):
    """Counts for one agent. `tokens` are what the provider counted, over all recorded runs. `propagated` are observations
    that were made of those of narrower scopes; `held`, claims that wait for a person.

    `vectors_advised`: the agent's scopes, `s12`, in which vectors may find what words don't (R124, R138): they are large,
    and searching was slow or found nothing too often. `vectors`: `off: ` and why, or `on: ` with the model, its dimensions
    and how many of the observations have one.
    """

    agent_id: str
    sessions: int
    messages: int
    unformed_messages: int
    due_sessions: int
    scopes: dict[str, int]
    observations: int
    pending: int
    due_scopes: int
    consolidations: int
    propagated: int
    due_propagations: int
    held: int
    runs: dict[str, int]
    input_tokens: int
    output_tokens: int
    retrieval: RetrievalStats = RetrievalStats()
    vectors_advised: tuple[str, ...] = ()
    vectors: str = "off"


_OBSERVATION_ID = re.compile(r"o([1-9]\d{0,17})-([1-9]\d{0,9})")


def observation_id(scope_id: int, seq: int) -> str:
    return f"o{scope_id}-{seq}"


def parse_observation_id(value: str) -> tuple[int, int]:
    """`(scope_id, seq)`; raises `InvalidIdError`."""
    found = _OBSERVATION_ID.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise InvalidIdError("observation id", "must look like o12-3")
    return int(found[1]), int(found[2])


def storable_metadata(metadata: Mapping[str, Any], max_characters: int) -> dict[str, Any]:
    """The metadata as jsonb can hold it; raises `InputError` for what JSON can't say, `TooLargeError` for too much."""
    try:
        encoded = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
        if len(encoded) > max_characters:
            raise TooLargeError("metadata", len(encoded), max_characters)
        cleaned = _clean_json(json.loads(encoded))
    except (TypeError, ValueError, RecursionError):
        raise InputError("metadata must be a JSON object, and not too deep") from None
    if not isinstance(cleaned, dict):
        raise InputError("metadata must be a JSON object")
    return cleaned


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
