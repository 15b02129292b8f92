"""What of an answer may be stored, and in which scope. Pure: nothing is asked, nothing is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import cached_property
from math import ceil

from memory_sql.config import Settings
from memory_sql.db.repositories.conversations import BufferedMessage
from memory_sql.db.repositories.observations import Draft, Evidence
from memory_sql.db.repositories.scopes import NewScope
from memory_sql.formation.answers import ExtractedObservation, Extraction
from memory_sql.formation.window import Loaded, Target
from memory_sql.languages.dates import days_of
from memory_sql.languages.text import clean, count_words, words_of
from memory_sql.llm.notation import as_written
from memory_sql.privacy.classify import Classification, classify, mask

AGENT_ROLES = frozenset({"assistant", "agent"})
ECHO_SHARE = 0.6  # of a text's words in what the agent said, and none in what people said: it is the agent's


def drafts_of(extraction: Extraction, loaded: Loaded, settings: Settings) -> tuple[list[Draft], Counter[str]]:
    """What may be stored of an answer, and how much was refused or mended, by reason."""
    sieve = _Sieve(loaded, settings)
    sieve.refused["unknown_scope"] += extraction.unknown
    drafts = [draft for item in extraction.observations if (draft := sieve.draft(item)) is not None]
    return drafts, +sieve.refused


class _Sieve:
    """Lets through what may be stored, one observation after the other; `refused` counts what isn't, and what was mended."""

    def __init__(self, loaded: Loaded, settings: Settings) -> None:
        self._loaded = loaded
        self._window = loaded.window
        self._settings = settings
        self._by_alias = {target.alias.casefold(): target for target in loaded.targets}
        self._taken: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    @cached_property
    def _words(self) -> dict[int, frozenset[str]]:
        """Of each message, once for all: an answer may hold ten thousand observations that name no source."""
        return {message.number: frozenset(words_of(message.content or "")) for message in self._window.spoken}

    def draft(self, item: ExtractedObservation) -> Draft | None:
        content = self._screened(as_written(clean(item.content)[0].strip()))
        if not content or len(content) > self._settings.observation_max_characters:
            self.refused["no_content" if not content else "too_long"] += 1
            return None
        sources = self._sources(item)
        if all(message.role in AGENT_ROLES for message in sources):
            self.refused["agents_own_words"] += 1  # it repeats what it was shown, memory included
            return None
        found = classify(content)
        target = self._route(item, sources)
        if found.categories and target is not None and target.kind != "individual":
            target = self._own_scope(sources)
        if target is None or not self._has_room(target, content):
            return None
        return _draft(content, found, target, sources, self._loaded)

    def _screened(self, content: str) -> str:
        """Without secrets, also where messages are refused for them: a model may have put one together."""
        masked = mask(content)
        if self._settings.secrets == "keep" or not masked.found:
            return content
        self.refused["masked"] += 1
        return masked.text

    def _own_scope(self, sources: Sequence[BufferedMessage]) -> Target | None:
        """Of who said something personal: that doesn't go to others, wherever the model puts it."""
        self.refused["personal"] += 1
        return self._open(self._author(self._authors(sources)))

    def _has_room(self, target: Target, content: str) -> bool:
        own = target.state  # with limits of its own, where somebody set them
        max_items = own.max_items if own is not None else None
        if self._taken[target.owner] >= (self._window.max_items if max_items is None else max_items):
            self.refused["over_limit"] += 1
            return False
        if count_words(content) > ((own and own.item_words) or self._settings.observation_max_words):
            self.refused["long_but_kept"] += 1
        self._taken[target.owner] += 1
        return True

    def _sources(self, item: ExtractedObservation) -> tuple[BufferedMessage, ...]:
        """The messages that the model points at; where it points at none, those that share most words with the text."""
        spoken = self._window.spoken
        named = [n for n in dict.fromkeys(item.sources) if 1 <= n <= len(spoken)]
        if len(named) < len(set(item.sources)):
            self.refused["unknown_source"] += 1
        if named:
            return tuple(spoken[n - 1] for n in sorted(named))
        said = tuple(message for message in spoken if message.role == "user")
        return self._closest(item.content, said, 1) or self._echoed(item.content) or said or spoken

    def _echoed(self, text: str) -> tuple[BufferedMessage, ...]:
        """The agent's messages that hold most of the text's words."""
        most = ceil(len(set(words_of(text))) * ECHO_SHARE)
        return self._closest(text, [m for m in self._window.spoken if m.role in AGENT_ROLES], most)

    def _closest(self, text: str, messages: Sequence[BufferedMessage], least: int) -> tuple[BufferedMessage, ...]:
        """The messages that share most words with the text; none where that is fewer than `least`."""
        words = set(words_of(text))
        shared = [len(words & self._words[message.number]) for message in messages]
        best = max(shared, default=0)
        return tuple(m for m, count in zip(messages, shared, strict=True) if count == best >= max(least, 1))

    def _route(self, item: ExtractedObservation, sources: Sequence[BufferedMessage]) -> Target | None:
        """The scope that the model chose among those it was offered; where it names none, that of the one who said it.

        What is somebody's own can only come from what they said: no scope is written by somebody else's words. What is a
        group's can only come from its members.
        """
        wanted = (item.scope or "").strip().casefold()
        users = {m.user_id for m in sources if m.user_id}
        authors = self._authors(sources)
        target = self._by_alias.get(wanted)
        if target is None:
            if wanted not in ("", "individual"):  # nobody knows for whom it was meant
                self.refused["unknown_scope"] += 1
                return None
            self.refused["no_scope"] += not wanted
            target = self._author(authors)
        elif target.kind == "individual" and authors and target.owner not in authors:
            self.refused["not_the_author"] += 1
            target = self._author(authors)
        elif not _takes(target, users):
            self.refused["not_a_member"] += 1
            target = self._author(authors)
        return self._open(target)

    def _authors(self, sources: Sequence[BufferedMessage]) -> set[str]:
        """Whose scopes are those of the users who said this."""
        return {self._window.owners[m.user_id] for m in sources if m.user_id}

    def _author(self, authors: set[str]) -> Target | None:
        individuals = [target for target in self._loaded.targets if target.kind == "individual"]
        if not authors and len(individuals) == 1:
            return individuals[0]
        return next((target for target in individuals if authors == {target.owner}), None)

    def _open(self, target: Target | None) -> Target | None:
        if target is None or not target.is_open:
            self.refused["no_single_author" if target is None else "inactive_scope"] += 1
            return None
        return target


def _takes(target: Target, users: Collection[str]) -> bool:
    """Whether what these users say may go there, as far as it is a matter of who they are."""
    return target.kind != "group" or (bool(target.members) and target.members.issuperset(users))


def _draft(
    content: str,
    found: Classification,
    target: Target,
    sources: Sequence[BufferedMessage],
    loaded: Loaded,
) -> Draft:
    said_at = max(m.said_at for m in sources)
    conversation_id = loaded.conversation.conversation_id
    speakers = {m.speaker for m in sources if m.role == "user" and m.speaker}
    return Draft(
        scope=NewScope(target.kind, target.owner, display_name=target.display_name),
        content=content,
        dates=days_of(content, said_at, loaded.window.zone),
        observed_at=said_at,
        source_kind="formation",
        evidence=tuple(Evidence(conversation_id, m.number, m.user_id) for m in sources),
        conversation_id=conversation_id,
        speaker=speakers.pop() if len(speakers) == 1 else None,
        message_ids=tuple(m.message_id for m in sources),
        categories=found.categories,
        sensitivity=found.sensitivity,
    )
