"""The lines of a person's export."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Literal
from uuid import UUID, uuid5

from memory_sql.domain.ids import Value
from memory_sql.domain.layer import ScopeRef
from memory_sql.domain.people import HoldKind
from memory_sql.domain.reading import LinkKind

EXPORT_FORMAT = 1


_NAMESPACE = UUID("6d0c9f4e-1a51-5c0b-9a54-3f0d8f4f7a10")


class ExportLine(Value):
    """One line of an export. `type` says which fields it has."""

    type: str


class ExportHeader(ExportLine):
    """The first line. `counts`: the number of lines that follow, by type."""

    type: Literal["header"] = "header"
    format: int = EXPORT_FORMAT
    agent_id: str
    user_id: str
    user_ids: tuple[str, ...]
    exported_at: datetime
    counts: dict[str, int]


class ExportedAlias(ExportLine):
    type: Literal["alias"] = "alias"
    user_id: str
    into_user_id: str
    created_at: datetime
    ended_at: datetime | None


class ExportedHold(ExportLine):
    type: Literal["hold"] = "hold"
    hold_id: int
    kind: HoldKind
    target: str
    reason: str | None
    created_at: datetime
    released_at: datetime | None


class ExportedMembership(ExportLine):
    """`kept`: what they had contributed when they left stays in the group without them."""

    type: Literal["membership"] = "membership"
    group_id: str
    user_id: str
    joined_at: datetime
    left_at: datetime | None
    kept: bool
    source: str


class ExportedConversation(ExportLine):
    """`alone`: nobody else took part, so the export includes the agent's answers."""

    type: Literal["conversation"] = "conversation"
    conversation_id: str
    user_ids: tuple[str, ...]
    alone: bool
    group_ids: tuple[str, ...]
    time_zone: str | None
    excluded: bool
    created_at: datetime
    last_activity_at: datetime


class ExportedEpisode(ExportLine):
    """A stretch of one of these conversations; what it was about is said with its observations."""

    type: Literal["episode"] = "episode"
    id: str
    conversation_id: str
    opened_at: datetime
    last_at: datetime
    sealed_at: datetime | None
    seal_reason: str | None
    trace: str | None


class ExportedMessage(ExportLine):
    type: Literal["message"] = "message"
    conversation_id: str
    number: int
    message_id: str
    role: str
    user_id: str | None
    speaker: str | None
    content: str | None
    said_at: datetime
    given_at: datetime | None
    created_at: datetime


class ExportedScope(ExportLine):
    """A scope of the person's own; `consolidation` is its text as of `version`."""

    type: Literal["scope"] = "scope"
    uuid: UUID
    scope: ScopeRef
    display_name: str | None
    consolidation: str | None
    version: int
    created_at: datetime


class ExportedPrompt(ExportLine):
    """A version of a prompt of one of their scopes; the newest of each name applies."""

    type: Literal["prompt"] = "prompt"
    uuid: UUID
    scope: ScopeRef
    name: str
    version: int
    mode: str
    body: str | None
    created_at: datetime


class ExportedVersion(ExportLine):
    """A version of the text of one of their scopes, made from the observations `(from_seq, to_seq]` and `extra_seqs`."""

    type: Literal["version"] = "version"
    uuid: UUID
    scope: ScopeRef
    version: int
    base: int
    from_seq: int
    to_seq: int
    extra_seqs: tuple[int, ...]
    live: bool
    content: str
    contradictions: list[dict[str, Any]]
    model: str | None
    reason: str
    created_at: datetime
    live_until: datetime | None


class ExportedEvidence(Value):
    """A message, or a person without a message, that supports an observation.

    `said_at`: when it was said again by it; None: it is what the observation was stored for. `confidence`: how sure that was;
    None: not known, or never said again.
    """

    conversation_id: str | None
    message_id: str | None
    user_id: str | None
    created_at: datetime
    said_at: datetime | None = None
    confidence: float | None = None


class ExportedFeedback(Value):
    """What was thought of an observation on a day (UTC): the sum of values from -1 to 1, and how many they were."""

    day: date
    total: float
    times: int


class ExportedLink(Value):
    """A link from an observation to another one of the same scope. `confidence` None: it was never seen again, nor faded."""

    to_id: str
    kind: LinkKind
    label: str
    confidence: float | None
    created_at: datetime
    reinforced_at: datetime | None


class ExportedObservation(ExportLine):
    """An observation in one of the person's own scopes, or one in a shared scope that comes from what they said.

    `subjects`: those of the person's ids of whom it speaks. `terms`: its search cues. `episode`: in which it was said, and
    `topics`: what it is about. `retrieved`: how often it was used recently in a context, search or digest, `feedback`: what
    was thought of it, and `links`: what it is linked with; only in their own scopes, since elsewhere it was for others as
    well. If it comes from other people's words too (`shared`), the data that belongs to those people is left out.
    """

    type: Literal["observation"] = "observation"
    uuid: UUID
    id: str
    seq: int
    scope: ScopeRef
    shared: bool
    content: str
    observed_at: datetime
    given_at: datetime | None
    said_again_at: datetime | None
    created_at: datetime
    status: str
    verification: str
    stage: str
    tier: str
    policy: str
    superseded_by: int | None
    until: date | None
    resolved: str | None
    resolved_at: datetime | None
    expires_at: datetime | None
    source_kind: str
    conversation_id: str | None
    speaker: str | None
    message_ids: tuple[str, ...]
    user_ids: tuple[str, ...]
    subjects: tuple[str, ...]
    terms: tuple[str, ...]
    category: str | None
    kind: str | None
    confidence: float | None
    importance: float | None
    classified_by: int | None
    sensitivity: str
    categories: tuple[str, ...] | None
    no_propagate: bool
    confidential: bool
    tags: tuple[str, ...]
    metadata: dict[str, Any]
    fact_key: str | None
    dates: tuple[str, ...]
    legacy_ref: str | None
    episode: str | None
    topics: tuple[str, ...]
    evidence: tuple[ExportedEvidence, ...]
    retrieved: dict[str, int]
    feedback: tuple[ExportedFeedback, ...]
    links: tuple[ExportedLink, ...]


class ExportedDerivation(ExportLine):
    """An observation of a wider scope that was derived from theirs. `sources` lists only their observations.

    `content` None: it was derived from other people's observations as well (`shared`).
    """

    type: Literal["derivation"] = "derivation"
    uuid: UUID
    id: str
    scope: ScopeRef
    shared: bool
    content: str | None
    observed_at: datetime
    created_at: datetime
    sources: tuple[str, ...]


class ExportedRun(ExportLine):
    """A model's work on one of their scopes, or on a conversation in which they were alone.

    `answer` is stored until it is applied. `held`: a new text of their scope that waits for a person, with its sources.
    """

    type: Literal["run"] = "run"
    run_id: int
    kind: str
    conversation_id: str | None
    scope_id: int | None
    state: str
    model: str | None
    answer: str | None
    held: dict[str, Any] | None
    started_at: datetime
    finished_at: datetime | None


class ExportedEvent(ExportLine):
    """Something that was done to their data, or by them. `detail` has ids, counts and words of this library.

    `actor` None: somebody else did it. What they did to other people's data has no reason and detail.
    """

    type: Literal["event"] = "event"
    event_id: int
    kind: str
    actor: str | None
    reason: str | None
    scope_id: int | None
    seq: int | None
    version: int | None
    conversation_id: str | None
    detail: dict[str, Any]
    created_at: datetime


def export_uuid(agent_id: str, owner: str, name: str, *place: object) -> UUID:
    """An id that is the same in every database with the same memory, made from the agent, the scope's owner and `place`.

    `owner` as in `scopes.owner`. Renaming the owner changes the id.
    """
    return uuid5(_NAMESPACE, "\x1f".join((agent_id, owner, name, *map(str, place))))  # no id holds a control character
