"""What search, context and digest return."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Literal, NamedTuple

from pydantic import Field

from memory_sql.domain.ids import Value
from memory_sql.domain.layer import ScopeRef
from memory_sql.domain.messages import RetainedMessage
from memory_sql.domain.observations import Observation

Surface = Literal["context", "search", "digest"]
LinkKind = Literal["entity", "time", "cause"]


class Followed(Value):
    """A link that a search has followed, from one observation to another.

    `kind`: entity (both name the same, the `label`, or are about the same user), time (said one after the other in a
    conversation) or cause (`label`: the words that say so). `confidence` 0 to 1.
    """

    from_id: str
    to_id: str
    kind: LinkKind
    label: str
    confidence: float

    def __str__(self) -> str:
        named = f" {self.label}" if self.label else ""
        return f"{self.from_id} → {self.to_id} {self.kind}{named} conf={self.confidence:.2f}"


class Explanation(Value):
    """Why something was found. `parts` add up to the score; `matched` are the words of the query that it contains.

    `terms` are its search cues, which extraction added and which are shown nowhere else. `cold`: it is cold, and was ranked
    because what is hot didn't fill the result, or because `tiering` is off. `links`: how its score was raised along links,
    from a better hit on; only with the setting `graph`.

    `admitted` is the reason that it is a hit: `words` (it contains some), `terms` (only its search cues contain some), `date`
    (it is of the time that the query names), `vector` (its meaning is near the query's), `successor` (it superseded an
    observation that was found), `graph` (links lead to it from better hits) or `all` (the query has no words). For messages
    also `asked` (the turn before asks for it), `window` (two words of the query are in the turns around it) and `source` (an
    observation made of it was found).
    """

    admitted: str
    parts: dict[str, float]
    matched: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    cold: bool = False
    links: tuple[Followed, ...] = ()


class Hit(Value):
    """An observation that was found. `explanation` None: it wasn't asked for.

    `strength`: the score divided by the score of one word that no other observation contains, so that it can be compared
    between small and large memories; 0 for what has none of the words and is no nearer in meaning than any other text.
    `covered`: the share of the query's words, weighted by rarity (IDF), that its text or search cues contain, 0 to 1.
    `near`: its meaning counted. `episode`: the id of the episode in which it was said; None: none that the
    user may see, or `episodes` is off.
    """

    observation: Observation
    score: float
    strength: float = 0.0
    covered: float = 0.0
    near: bool = False
    explanation: Explanation | None = None
    episode: str | None = None


class MessageHit(Value):
    """A message that was found. `observations`: the ids of those made of it that the user may see, oldest first.

    `strength` and `covered` as in `Hit`, among messages.
    """

    message: RetainedMessage
    score: float
    strength: float = 0.0
    covered: float = 0.0
    observations: tuple[str, ...] = ()
    explanation: Explanation | None = None


class Decision(Value):
    """Why a context shows what a search found, or doesn't.

    `recalls`: the kind of phrase with which the message asks for what was said before, "" if it has none; with one,
    everything that was found is shown. `strength` and `covered` are those of the best hit; `near`: vectors counted. `noise`:
    the strength that chance reaches, below which nothing is shown. `lines`: how many observations and messages are shown, as
    far as the scores are near each other, or all that was found with `retrieve=True`.
    """

    recalls: str
    strength: float
    covered: float
    near: bool
    noise: float
    lines: int

    @property
    def shown(self) -> bool:
        return self.lines > 0


class SearchResult(Value):
    """Two lists, each best first: observations, and messages whose text is still kept. Their scores can be compared.

    `terms`: the words that were looked for; without words, dates and operators nothing is searched. `left_out` says which
    words were not looked for and why (with `explain`); `plan` is the query plan (with `plan`). `notice`: that there is no
    such agent (nothing was ever stored for it), or why vectors weren't used although they should have been.
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
    """One line of the XML. `id`: of the observation, or the host's id of the message in `conversation_id`."""

    id: str
    text: str
    conversation_id: str | None = None


class ContextPart(Value):
    """One element of the XML: an outermost one, or a shard. `version`: of its consolidated text, None without one.

    `sources`: `s<scope>v<version>` for a consolidated text (its versions: `scopes.history(scope_id=…)`), then the ids of the
    `lines`. `truncated`: parts of it were cut to fit the budget.
    """

    element: str
    scope: ScopeRef | None
    sources: tuple[str, ...]
    tokens: int
    version: int | None = None
    lines: tuple[ContextLine, ...] = ()
    truncated: bool = False


class Digest(Value):
    """A part of a prompt: `str(digest)` is its text, empty if it has no observations.

    `included`: the ids of its observations, in order. `counts`: how many were found by pins (`structured`), by words
    (`keyword`) and by meaning (`semantic`); of these, how many are `included`, how many were found again (`repeated`), and
    how many were left out, by reason: `kind_budget`, `total_budget`, `too_long` (the id and source alone exceed the budget),
    `sensitivity`, `disputed`, `not_active`. `notice` as in a search's result.
    """

    text: str
    included: tuple[str, ...]
    counts: dict[str, int]
    notice: str | None = None

    def __str__(self) -> str:
        return self.text


class Context(Value):
    """The memory to put into the prompt: `str(context)` is the XML, the digest, or both, as the setting `assembly` says.

    `tokens` is an estimate (characters / 4.5). `digest` None: it wasn't asked for; `xml` is empty if it wasn't asked for. The
    first `stable_characters` don't depend on the time, the message or new observations; they change only when a scope's text
    or name, what the user may see, or the budget changes. Put a prompt cache's mark there. `truncated`: the XML was cut to
    fit the budget. `left_out`: how many pending observations of the scopes shown aren't in it, the oldest ones: beyond the
    `pending_max` newest of each scope, or for lack of room. `scopes_left_out`: how many scopes beyond `context_scopes_max`
    aren't in it, those that changed longest ago. `notice`: that there is no such agent (nothing was ever stored for it), or
    why vectors weren't used although they should have been. `decision`: why what was found for the message is shown or not;
    None: there was no search.
    """

    xml: str
    parts: tuple[ContextPart, ...]
    tokens: int
    fired: bool
    reason: str | None = None
    stable_characters: int = 0
    truncated: bool = False
    left_out: int = 0
    scopes_left_out: int = 0
    digest: Digest | None = None
    notice: str | None = None
    decision: Decision | None = None

    def __str__(self) -> str:
        return "\n\n".join(filter(None, (self.xml, str(self.digest or ""))))

    @property
    def sources(self) -> tuple[str, ...]:
        of_parts = tuple(source for part in self.parts for source in part.sources)
        return of_parts + (self.digest.included if self.digest else ())


class Asked(NamedTuple):
    """An agent's queries of one day with the same reason, and the time that searching took; reason `none`: no search."""

    agent_id: str
    day: date
    surface: Surface
    reason: str
    queries: int
    without_hit: int
    seconds: float
    slowest_seconds: float


class Retrieved(NamedTuple):
    """How often searches of one day found and returned an observation of an agent."""

    agent_id: str
    day: date
    surface: Surface
    observation_id: str
    times: int


class RetrievalStats(Value):
    """How often memory was queried in the last days (`config.RETRIEVAL_DAYS`). The latest counts may be missing.

    `fired`: how many queries searched, as a message did that has words to look for; `without_hit`: how many found nothing.
    `mean_ms` and `slowest_ms`: milliseconds of their statements, None without any. `reasons`: queries by the reason for
    showing what was found; `too little`: no more was found than chance finds; `none`: nothing was looked for.
    """

    queries: int = 0
    fired: int = 0
    without_hit: int = 0
    mean_ms: float | None = None
    slowest_ms: float | None = None
    reasons: dict[str, int] = Field(default_factory=dict)
