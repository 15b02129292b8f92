"""Scopes, what is pending in them and what was retrieved → the XML in the agent's prompt. Pure.

What changes seldom comes first, so that prompt caches hold: the texts, in an order that the host can choose, the user's
last; then everything that carries a day or depends on the message.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime, tzinfo
from functools import cached_property, partial
from typing import NamedTuple, Self

from memory_sql.config import ContextFormat, ContextKind, Settings
from memory_sql.context.fitting import Fitted, fit
from memory_sql.context.layouts import LAYOUTS, Attributes, Block, escape, escape_lines
from memory_sql.domain.episodes import Episode
from memory_sql.domain.ids import observation_id
from memory_sql.domain.layer import PendingObservation, ScopeRef, ScopeText
from memory_sql.domain.observations import Observation
from memory_sql.domain.reading import Context, ContextLine, Hit, MessageHit
from memory_sql.languages.dates import name_relative_days, zone_of
from memory_sql.languages.text import CHARACTERS_PER_TOKEN, folded, one_line, sentences, shortened, words_of

ELEMENTS = {
    "collective": ("CollectiveMemory", None),
    "agent": ("AgentMemory", None),
    "guideline": ("Guidelines", None),
    "group": ("GroupMemory", "group"),
    "individual": ("UserMemory", "user"),
    "entity": ("EntityMemory", "entity"),
    "conversation": ("SessionMemory", "conversation"),
}
RETRIEVED = "RetrievedObservations"
EPISODES = "RecentEpisodes"
Told = Callable[[Sequence[str], Sequence[datetime]], list[str]]  # when each of these texts was said, in words


class Style(NamedTuple):
    """How a context is to look: the kinds of scopes that it shows, in their order, its layout and limits."""

    order: tuple[ContextKind, ...]
    layout: ContextFormat
    max_tokens: int | None
    message_max_characters: int
    zone: tzinfo

    @classmethod
    def of(cls, settings: Settings, layout: ContextFormat | None = None, max_tokens: int | None = None) -> Self:
        """As the settings say, but for what is given."""
        return cls(
            tuple(settings.context_order),
            layout or settings.context_format,
            settings.context_max_tokens if max_tokens is None else max_tokens,
            settings.context_message_max_characters,
            zone_of(settings.time_zone),
        )


class Static(NamedTuple):
    """The static layer as a context shows it, in its order."""

    scopes: Sequence[ScopeText]
    style: Style

    @classmethod
    def of(cls, scopes: Iterable[ScopeText], style: Style) -> Self:
        return cls(shown(scopes, style), style)


def static_of(
    scopes: Iterable[ScopeText], settings: Settings, layout: ContextFormat | None, max_tokens: int | None
) -> Static:
    """As the settings say, but for what is given."""
    return Static.of(scopes, Style.of(settings, layout, max_tokens))


def days_from(now: datetime, zone: tzinfo) -> Told:
    """`today`, `yesterday` or `2026-11-20`, by the calendar of the zone (R075).

    With its weekday, as `Friday 2026-11-20`, where the text names a day that is reckoned from it ("next Monday").
    """
    today = now.astimezone(zone).date()

    def days_of(texts: Sequence[str], times: Sequence[datetime]) -> list[str]:
        days = [then.astimezone(zone).date() for then in times]
        return [
            f"{day:%A} {day}" if is_reckoned_from else _LATELY.get((today - day).days) or day.isoformat()
            for day, is_reckoned_from in zip(days, name_relative_days(texts, times, zone), strict=True)
        ]

    return days_of


_LATELY = {0: "today", 1: "yesterday"}


def shown(scopes: Iterable[ScopeText], style: Style) -> list[ScopeText]:
    """The scopes of the kinds that the context shows, in its order; of a user's those with a name first."""
    places = {kind: place for place, kind in enumerate(style.order)}
    chosen = [scope for scope in scopes if scope.ref.kind in places]
    return sorted(
        chosen,
        key=lambda scope: (
            places[scope.ref.kind],
            scope.ref.kind == "individual" and not scope.ref.name,
            scope.ref.owner_id or "",
            scope.ref.name or "",
        ),
    )


def render(
    static: Static,
    hits: Sequence[Hit],
    now: datetime,
    *,
    reason: str | None = None,
    messages: Sequence[MessageHit] = (),
    conversation_id: str | None = None,
    episodes: Sequence[Episode] = (),
) -> Context:
    """The whole context. `hits`, without what is `told_in` it, and `messages` come best first.

    Left out are messages of `conversation_id` and those behind what is shown. `reason`: why any were looked for. `episodes`:
    the newest first.
    """
    style = static.style
    layout = LAYOUTS[style.layout]
    blocks = list(_blocks(static, hits, messages, conversation_id, now, episodes))
    fitted = Fitted(blocks)
    if style.max_tokens is not None:
        fitted = fit(blocks, layout, int(style.max_tokens * CHARACTERS_PER_TOKEN))
    written = layout.write(fitted.blocks, incomplete=fitted.incomplete)
    return Context(
        xml=written.xml,
        parts=written.parts,
        tokens=written.tokens,
        fired=reason is not None,
        reason=reason,
        stable_characters=written.stable,
        truncated=fitted.truncated,
        left_out=sum(scope.more_pending for scope in static.scopes)
        + _pending_lines(blocks)
        - _pending_lines(fitted.blocks),
    )


def _pending_lines(blocks: Iterable[Block]) -> int:
    return sum(len(block.lines) for block in blocks if block.role == "pending")


def title_of(scope: ScopeText) -> str:
    """How the prompt calls the scope's owner."""
    return scope.display_name or scope.ref.owner_id or ""


# What it is made of, in the order in which it stands


def _blocks(
    static: Static,
    hits: Sequence[Hit],
    messages: Sequence[MessageHit],
    conversation_id: str | None,
    now: datetime,
    episodes: Sequence[Episode],
) -> Iterator[Block]:
    scopes, style = static.scopes, static.style
    told = days_from(now, style.zone)
    last = _last(scopes)
    for scope in scopes:
        yield from _text(scope, own=scope.ref in last)
    pending = [_pending(scope, told, now, style, own=scope.ref in last) for scope in scopes if scope.pending]
    yield from (
        _buffer(scope, told, now, style, own=_holds_its_latest(scope, last)) for scope in scopes if scope.buffer
    )
    yield from sorted(pending, key=lambda block: not block.own)
    yield from (block for scope in scopes for block in _disputed(scope, told))
    yield from _episodes(episodes, style.zone)
    if not hits and not messages:
        return
    yield from _retrieved(hits, told)
    seen = _stands(scopes) | {hit.observation.id for hit in hits}
    said = [
        m for m in messages if m.message.conversation_id != conversation_id and not seen.intersection(m.observations)
    ]
    yield from _messages(said, told, style.message_max_characters)


def told_in(static: Static, hits: Sequence[Hit]) -> set[str]:
    """The ids of hits that the context shows otherwise, or not at all: as pending, in its texts, or by another hit.

    A sentence of a text may say more. What is disputed isn't told, and nothing is by what was overtaken.
    """
    scopes = static.scopes
    seen, kinds = _stands(scopes), static.style.order
    texts = [_Searched(scope.consolidation) for scope in scopes if hits and scope.consolidation]
    told, above = set[str](), set[frozenset[str]]()
    pending = _Lines([item.content for scope in scopes for item in scope.pending] if hits else [])
    for observation in sorted((hit.observation for hit in hits), key=lambda one: one.status == "superseded"):
        words = frozenset(words_of(observation.content))
        stands = words in above or pending.have(words) or any(text.says(words) for text in texts)
        again = observation.verification != "disputed" and words and stands
        if again or observation.id in seen or observation.scope.kind not in kinds:
            told.add(observation.id)
        above.add(words)
    return told


class _Lines:
    """Lines of which those with certain words and no others are looked for: few are cut up, since most hits have others."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._folded = folded("\n".join(lines))

    def have(self, words: frozenset[str]) -> bool:
        return _holds(self._folded, words) and any(
            _holds(folded(line), words) and words == frozenset(words_of(line)) for line in self._lines
        )


class _Searched:
    """A text in which sentences are looked for: it is folded and cut up once, however many there are."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._folded = folded(text)

    @cached_property
    def _sentences(self) -> list[tuple[str, str]]:
        return [(folded(part), part) for part in sentences(self._text)]

    def says(self, words: frozenset[str]) -> bool:
        """Whether a sentence of it has all of the words."""
        if not _holds(self._folded, words):
            return False  # as of most: few are cut up
        return any(_holds(said, words) and words <= frozenset(words_of(part)) for said, part in self._sentences)


def _holds(text: str, words: frozenset[str]) -> bool:
    return all(word in text for word in words)


def _stands(scopes: Iterable[ScopeText]) -> set[str]:
    """The ids of what is shown as pending, and of what is in a buffer."""
    return {
        observation_id(key, item.seq)
        for scope in scopes
        for key in [scope.ref.key]
        for item in (*scope.pending, *scope.buffer)
    }


def _last(scopes: Sequence[ScopeText]) -> frozenset[ScopeRef]:
    """The user's main scope and the conversation, if no other text follows: their lines end their elements (R075)."""
    behind = [scope.ref for scope in scopes if scope.ref.kind in ("individual", "conversation") or scope.consolidation]
    own = [ref for ref in behind[-1:] if ref.kind == "conversation"]
    before = behind[: len(behind) - len(own)]
    return frozenset(own + [ref for ref in before[-1:] if ref.kind == "individual"])


def _holds_its_latest(scope: ScopeText, last: Collection[ScopeRef]) -> bool:
    """A conversation has nothing that stays: its latest stands with its summary. A user's stands apart from the text."""
    return scope.ref.kind == "conversation" and scope.ref in last


def _text(scope: ScopeText, *, own: bool) -> Iterator[Block]:
    text = (scope.consolidation or "").strip()
    xml = escape(text)
    if xml.strip():
        element, attributes = _element(scope)
        yield Block(
            "text", element, attributes, scope.ref, scope.version, text=text, xml=xml, own=own, title=_called(scope)
        )


def _pending(scope: ScopeText, told: Told, now: datetime, style: Style, *, own: bool) -> Block:
    element, attributes = _element(scope)
    heading, items = "", scope.pending[::-1]
    if style.layout == "legacy":
        items = scope.pending
        heading, told = _in_legacy(scope, now)
    elif not own:
        element, attributes = "RecentObservations", _apart(scope)
    return Block(
        "pending",
        element,
        attributes,
        scope.ref,
        lines=_lines(scope, items, told),
        times=tuple([item.observed_at for item in items]),
        own=own,
        title=_called(scope),
        heading=heading,
        newer_than=_element(scope)[0] if (scope.consolidation or "").strip() else "",
    )


def _buffer(scope: ScopeText, told: Told, now: datetime, style: Style, *, own: bool) -> Block:
    """What stands beside the text for as long as it is among the newest."""
    heading, element, attributes = "", *_element(scope)
    if style.layout == "legacy":
        heading, told = _in_legacy(scope, now, buffer=True)
    elif not own:
        element, attributes = "LatestObservations", _apart(scope)
    return Block(
        "buffer",
        element,
        attributes,
        scope.ref,
        lines=_lines(scope, scope.buffer, told),
        times=tuple([item.observed_at for item in scope.buffer]),
        own=own,
        title=_called(scope),
        heading=heading,
    )


def _disputed(scope: ScopeText, told: Told) -> Iterator[Block]:
    """What somebody says isn't so and the scope's text may state; what is pending is marked where it stands."""
    doubted = [item for item in scope.disputed if item not in scope.pending]
    if doubted and scope.consolidation:
        times = tuple(item.observed_at for item in doubted)
        notes = told([item.content for item in doubted], times)
        lines = [
            ContextLine(observation_id(scope.ref.key, item.seq), f"- {text} ({note})")
            for item, text, note in zip(doubted, escape_lines([item.content for item in doubted]), notes, strict=True)
        ]
        yield Block("disputed", "DisputedObservations", _apart(scope), scope.ref, lines=tuple(lines), times=times)


def _retrieved(hits: Sequence[Hit], told: Told) -> Iterator[Block]:
    if hits:
        found = [hit.observation for hit in hits]
        texts, times = [o.content for o in found], tuple(o.said_at for o in found)
        lines = [
            ContextLine(o.id, f"- {text}{_note(when, *_marks(o))}")
            for o, text, when in zip(found, escape_lines(texts), told(texts, times), strict=True)
        ]
        behind = sum(o.status == "superseded" for o in found)  # without what took its place it would mislead
        yield Block("retrieved", RETRIEVED, lines=tuple(lines), times=times, behind=behind)


def _messages(hits: Sequence[MessageHit], told: Told, characters: int) -> Iterator[Block]:
    if hits:
        said = [hit.message for hit in hits]
        texts = escape_lines(
            [f"{m.speaker or m.user_id or m.role}: {shortened(one_line(m.content), characters)}" for m in said]
        )
        times = tuple(m.said_at for m in said)
        lines = [
            ContextLine(m.id, f"- {text} ({when})", m.conversation_id)
            for m, text, when in zip(said, texts, told([m.content for m in said], times), strict=True)
        ]
        yield Block("messages", "RetrievedMessages", lines=tuple(lines), times=times)


def _episodes(episodes: Sequence[Episode], zone: tzinfo) -> Iterator[Block]:
    """What was talked about lately, a line an episode: when it was, what it was about, how much is remembered of it."""
    if episodes:
        topics = escape_lines([", ".join(one.topics) or "no topic" for one in episodes])
        lines = [ContextLine(one.id, _of_episode(one, said, zone)) for one, said in zip(episodes, topics, strict=True)]
        yield Block("episodes", EPISODES, lines=tuple(lines), times=tuple(one.last_at for one in episodes))


def _of_episode(one: Episode, topics: str, zone: tzinfo) -> str:
    began = one.opened_at.astimezone(zone)
    since = "" if one.trace_since is None else f", goes on from {one.trace_since.astimezone(zone):%Y-%m-%d}"
    memories = "1 memory" if one.observations == 1 else f"{one.observations} memories"
    return f"- [{began:%A %Y-%m-%d %H:%M}{since}] {topics} ({memories}, {one.id})"


# Attributes and lines


def _element(scope: ScopeText) -> tuple[str, Attributes]:
    """Its name and attributes."""
    element, owner = ELEMENTS[scope.ref.kind]
    return element, (((owner, title_of(scope)),) if owner else ()) + _named(scope)


def _named(scope: ScopeText) -> Attributes:
    return (("name", scope.ref.name),) if scope.ref.name else ()


def _apart(scope: ScopeText) -> Attributes:
    """Whose it is, of what stands outside of the scope's element."""
    owner = ((scope.ref.kind, title_of(scope)),) if scope.ref.owner_id else ()
    return (("scope", scope.ref.kind), *owner, *_named(scope))


def _called(scope: ScopeText) -> str:
    """What the legacy layout calls a shard, or a user."""
    if scope.ref.kind == "individual":
        return ": ".join(filter(None, (title_of(scope), scope.ref.name)))
    return scope.ref.name or title_of(scope) or scope.ref.kind


def _in_legacy(scope: ScopeText, now: datetime, *, buffer: bool = False) -> tuple[str, Told]:
    """The heading of what is pending, or of the buffer, and how its age is written.

    A shard's facts are its buffer. Without text and buffer what is pending is all that it holds: its facts as well; else
    it waits to be taken into the text: suggestions.
    """
    if scope.ref.kind == "conversation":
        return "", _untold
    if scope.ref.kind == "individual":
        return "User facts" if buffer else "Recent user directives", partial(_days, now=now)
    if not buffer and (scope.consolidation or scope.buffer):
        return "Recent shard suggestions", _untold
    return "Shard facts", partial(_days, now=now)


def _days(_texts: Sequence[str], times: Sequence[datetime], now: datetime) -> list[str]:
    return [f"age: {max(0, (now - then).days)} days ago" for then in times]


def _untold(_texts: Sequence[str], times: Sequence[datetime]) -> list[str]:
    return [""] * len(times)


def _lines(scope: ScopeText, items: Sequence[PendingObservation], told: Told) -> tuple[ContextLine, ...]:
    disputed = {item.seq for item in scope.disputed}
    scope_id, texts = scope.ref.key, [item.content for item in items]
    notes = told(texts, [item.observed_at for item in items])
    return tuple(
        [
            ContextLine(
                observation_id(scope_id, item.seq),
                f"- {text}{_note(when, 'disputed' if item.seq in disputed else '')}",
            )
            for item, text, when in zip(items, escape_lines(texts), notes, strict=True)
        ]
    )


def _marks(observation: Observation) -> Iterator[str]:
    if observation.verification == "disputed":
        yield "disputed"
    if observation.status == "superseded":
        yield "no longer so"
    if observation.ended:
        yield observation.ended


def _note(*marks: str) -> str:
    said = ", ".join(filter(None, marks))
    return f" ({said})" if said else ""
