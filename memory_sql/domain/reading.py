"""What search, context and digest return."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Literal

from pydantic import Field

from memory_sql.domain.ids import Value
from memory_sql.domain.layer import ScopeRef
from memory_sql.domain.messages import RetainedMessage
from memory_sql.domain.observations import Observation

Surface = Literal["context", "search", "digest"]


class Explanation(Value):
    """Why something was found. `parts` add up to the score; `matched` are the words of the query that stand in it.

    `terms` are the search cues that the model gave with it, which nobody else is shown.

    `admitted` is what let it in: `words` of its own, `terms` (the query's words stand in these alone), `date` (of the time
    that is named), `vector` (its meaning is near the query's), `successor` (it has taken the place of what was found) or
    `all` (the query has no words). Of messages also `asked`
    (the turn before asks for it), `window` (two words of the query stand around it) and `source` (an observation made of it
    was found).
    """

    admitted: str
    parts: dict[str, float]
    matched: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()


class Hit(Value):
    """An observation that was found. `explanation` where it was asked for.

    `strength`: the score by what one word is worth that no other observation has, so that it compares between small
    memories and large ones. `covered`: how much of the query stands in its text or search cues, 0 to 1, its words by how
    rare they are (IDF). `near`: its meaning is near the query's.
    """

    observation: Observation
    score: float
    strength: float = 0.0
    covered: float = 0.0
    near: bool = False
    explanation: Explanation | None = None


class MessageHit(Value):
    """A message that was found. `observations` are the ids of those made of it that the user may see, oldest first.

    `strength` and `covered` as of a `Hit`, among messages.
    """

    message: RetainedMessage
    score: float
    strength: float = 0.0
    covered: float = 0.0
    observations: tuple[str, ...] = ()
    explanation: Explanation | None = None


class Decision(Value):
    """Why what a search found is shown in a context, or isn't.

    `asks`: the message asks something, or to be told. `recalls`: the kind of phrase by which it asks for what was said
    before, "" where it doesn't say so: then whatever was found is shown. `strength` and `covered` are those of the best
    hit; `near`: vectors counted. `odds`: the logarithm of the odds that memory answers the message, by these. `shown`: they
    are a little better than even, or it asks for what was said; with `retrieve=True` what was found is shown in any case.
    """

    asks: bool
    recalls: str
    strength: float
    covered: float
    near: bool
    odds: float
    shown: bool


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
    """One line of the XML, as it stands there. `id`: the observation's; of a message the host's, in `conversation_id`."""

    id: str
    text: str
    conversation_id: str | None = None


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
    something from the XML; `left_out`: how many pending observations of the scopes shown aren't in it, the oldest: beyond
    the `pending_max` newest of each scope, or for want of room; `scopes_left_out`: how many scopes, those that changed the
    longest ago, beyond `context_scopes_max`. `notice`: why words alone counted in what was retrieved,
    where vectors should have. `decision`: why what was found for the message is shown or isn't; None: nothing was looked for.
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


@dataclass(frozen=True, slots=True)
class Retrieved:
    """How often an observation of an agent, by its id, was found on a day by a search and stood in what that returned."""

    agent_id: str
    day: date
    surface: Surface
    observation_id: str
    times: int


class RetrievalStats(Value):
    """How often memory was asked in the last days (`config.RETRIEVAL_DAYS`); what was counted last may be missing.

    `fired` is how many queries searched for a message that asks, or were told to; `without_hit` how many of these found
    nothing. `mean_ms` and `slowest_ms`: milliseconds that their statements took, None where there were none. `reasons`:
    queries by why what was found was shown; `too little`: it wasn't, though the message asks; `none`: nor did it ask.
    """

    queries: int = 0
    fired: int = 0
    without_hit: int = 0
    mean_ms: float | None = None
    slowest_ms: float | None = None
    reasons: dict[str, int] = Field(default_factory=dict)
