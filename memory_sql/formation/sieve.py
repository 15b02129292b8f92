"""What of an answer may be stored, and in which scope. Pure: nothing is asked, nothing is written."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from typing import NamedTuple

from memory_sql.config import Settings
from memory_sql.config.kinds import CATEGORIES
from memory_sql.db.repositories.conversations import BufferedMessage
from memory_sql.db.repositories.observations import Draft, Evidence, LinkedBy, by_rules
from memory_sql.db.repositories.scopes import NewScope
from memory_sql.domain.classification import CONFIDENCE
from memory_sql.domain.episodes import topics_of
from memory_sql.formation.answers import ExtractedObservation, Extraction
from memory_sql.formation.requests import MOST_REQUESTS, TOOLS, Asked, asked_in
from memory_sql.formation.sources import AGENT_ROLES, From, Sources
from memory_sql.formation.window import Loaded, Target
from memory_sql.languages.anchors import small_words
from memory_sql.languages.dates import days_of
from memory_sql.languages.naming import capitals_in
from memory_sql.languages.text import QUESTION, clean, count_words, normal_form, one_line, sentences, words_of
from memory_sql.languages.wording import is_among, pieces, telling
from memory_sql.llm.notation import as_written
from memory_sql.privacy.classify import Classification, classify, holds_mark, mask
from memory_sql.privacy.confidence import said_in_confidence
from memory_sql.privacy.contact import names_whom_it_reaches, without_contact
from memory_sql.privacy.persons import is_about_somebody

MOST_TERMS, MOST_TERM_CHARACTERS = 8, 60
MOST_TOPICS_SAID = 3  # by a model, of one observation
OF_PEOPLE = frozenset({"financial", "health", "identity", "intimate"})  # and of a shop, a dish or a church as well
_NOWHERE: Mapping[int, tuple[Evidence, ...]] = {}
FEW = 3  # telling words; what has fewer may be said in quite other words
BEFORE = (
    3  # messages before a source that may say what it is about; of 1,312 honest observations 3 have no word in them
)
ASKED_TO_FORGET = "asked_to_forget"
_HANDLE = re.compile(r"\bP\d{1,3}\b")
_DAY = re.compile(r"(?<![\d-])\d{4}-\d\d(?:-\d\d)?(?![\d-])")
FEWEST_ECHOED = 2  # words: with fewer everything would be one
ECHO_KNOWN, ECHO_SAID = 0.75, 0.5  # of its words in a sentence of memory's, and in statements of its source's


class Withheld(NamedTuple):
    """What isn't stored since these ask to forget it in the same messages."""

    draft: Draft
    by: tuple[Asked, ...]


class Sifted(NamedTuple):
    """What may be stored of an answer, how much was refused or mended, by reason, and what is kept back."""

    drafts: list[Draft]
    refused: Counter[str]
    withheld: list[Withheld]


def drafts_of(
    extraction: Extraction, loaded: Loaded, settings: Settings, elsewhere: Mapping[int, tuple[Evidence, ...]] = _NOWHERE
) -> tuple[list[Draft], Counter[str]]:
    """As `sift`, without what is kept back."""
    return sift(extraction, loaded, settings, elsewhere)[:2]


def sift(
    extraction: Extraction, loaded: Loaded, settings: Settings, elsewhere: Mapping[int, tuple[Evidence, ...]] = _NOWHERE
) -> Sifted:
    """`elsewhere`: more evidence, of other conversations, by the place in the answer."""
    asked, refused = asked_in(extraction, loaded, settings)
    sieve = _Sieve(loaded, settings, asked, [item.content for item in extraction.observations])
    sieve.refused.update(refused, unknown_scope=extraction.unknown)
    drafts = [
        replace(draft, evidence=(*draft.evidence, *elsewhere.get(n, ())))
        for n, item in enumerate(extraction.observations)
        for draft in sieve.drafts(item)
    ]
    return Sifted(drafts, +sieve.refused, sieve.withheld)


@dataclass(frozen=True, slots=True)
class _Placed:
    """What is stored where, from which messages. `proposed`: for whom it was meant, as `observations.proposed` has it."""

    content: str
    target: Target
    sources: From
    proposed: str | None = None
    confidential: bool = False


class _Sieve:
    """Lets through what may be stored, one observation after the other; `refused` counts what isn't, and what was mended."""

    def __init__(self, loaded: Loaded, settings: Settings, asked: Sequence[Asked], told: Sequence[str]) -> None:
        self._loaded = loaded
        self._asked = asked
        self._window = loaded.window
        self._settings = settings
        self._by_alias = {target.alias.casefold(): target for target in loaded.targets}
        self._people = loaded.people
        self._taken = defaultdict[str, set[str]](set)
        self._told = told
        self._plain: str | None = None  # the text of the observation at hand, where no secret was found in it
        self.refused: Counter[str] = Counter()
        self.withheld: list[Withheld] = []

    @cached_property
    def _said(self) -> tuple[str, ...]:
        return tuple(message.content or "" for message in self._window.spoken)

    @cached_property
    def _confided(self) -> frozenset[int]:
        """The messages in which a user said something in confidence; once for all, too."""
        said = (m for m in self._window.spoken if m.role == "user")
        return frozenset(m.number for m in said if said_in_confidence(m.content or ""))

    def drafts(self, item: ExtractedObservation) -> list[Draft]:
        """One; none where it is refused; where several people said what goes to others as a proposal, one for each."""
        content = self._named(as_written(clean(item.content)[0].strip(), self._said))
        content = self._screened(content)
        sources = self._sources(item)
        if wrong := self._wrong_with(item, content, sources):
            self.refused[wrong] += 1
            return []
        if by := self._asking_for(content, sources):
            self._withhold(item, content, sources, by)
            return []
        behind = self._behind(item, content, sources)
        target = self._route(item, behind)
        if target is None:
            return []
        placed = self._placed(item, content, target, behind)
        return [self._draft(item, one) for one in placed if self._has_room(one.target, one.content)]

    def _wrong_with(self, item: ExtractedObservation, content: str, sources: Sequence[BufferedMessage]) -> str | None:
        """Why it is refused, whatever scope it is for."""
        if not content or len(content) > self._settings.observation_max_characters:
            return "no_content" if not content else "too_long"
        if re.search(QUESTION, content):
            return "question"
        if all(message.role in AGENT_ROLES for message in sources):
            return "agents_own_words"  # it repeats what it was shown, memory included
        if not any(message.role == "user" for message in sources):
            return "no_users_words"  # a tool's or a function's: no user's fact
        if self._is_of_conversation(item):
            return None
        if not self._is_said(content, sources):
            return "not_said"
        return "echo" if self._is_echo(content, sources) else None

    def _asking_for(self, content: str, sources: Sequence[BufferedMessage]) -> tuple[Asked, ...]:
        """By whom it would be kept though they ask, in these very messages, to forget it."""
        return tuple(one for one in self._asked if one.would_keep(content, (m.number for m in sources)))

    def _withhold(
        self, item: ExtractedObservation, content: str, sources: Sequence[BufferedMessage], by: tuple[Asked, ...]
    ) -> None:
        self.refused[ASKED_TO_FORGET] += 1
        behind = self._behind(item, content, sources)
        target = None if self._is_of_conversation(item) else self._route(item, behind)
        if target is not None and len(self.withheld) < MOST_REQUESTS:
            placed = self._placed(item, content, target, behind)
            self.withheld += [Withheld(self._draft(item, one), by) for one in placed[:1]]

    def _is_echo(self, content: str, sources: Sequence[BufferedMessage]) -> bool:
        """Whether memory says so already, and its sources have stated neither that again nor what is new in it."""
        if not self._known:
            return False
        words = pieces(content) - small_words() - self._called
        if len(words) < FEWEST_ECHOED:
            return False
        stated = [pieces(one) for m in sources if m.role == "user" for one in _statements(m.content or "")]
        again = {word for word in words if any(is_among(word, text) for text in stated)}
        if len(again) >= ECHO_SAID * len(words):
            return False
        known = ({word for word in words if is_among(word, text)} for text in self._known)
        return any(len(some) >= ECHO_KNOWN * len(words) and again <= some for some in known)

    @cached_property
    def _known(self) -> tuple[frozenset[str], ...]:
        """The words of what the prompt showed of memory, sentence by sentence."""
        shown = dict.fromkeys(text for target in self._loaded.targets for text in target.knows)
        return tuple(pieces(sentence) for text in shown for sentence in sentences(text))

    @cached_property
    def _called(self) -> frozenset[str]:
        return frozenset[str]().union(*map(pieces, self._names))

    @cached_property
    def _handles(self) -> dict[str, str]:
        """How those are called of whom the prompt speaks by handles: by their names, else by their ids."""
        speakers = {m.user_id: m.speaker for m in self._window.messages if m.user_id and m.speaker}
        displayed = {target.owner: target.display_name for target in self._loaded.targets if target.display_name}
        return {
            handle: speakers.get(user) or displayed.get(f"u:{user}") or user for handle, user in self._people.items()
        }

    def _named(self, content: str) -> str:
        """With people's names in the place of the prompt's handles, which nobody knows outside of it."""

        def name(found: re.Match[str]) -> str:
            handle = found[0]
            if handle not in self._handles or any(handle in said for said in self._said):
                return handle
            self.refused["handle"] += 1
            return self._handles[handle]

        return _HANDLE.sub(name, content)

    def _is_of_conversation(self, item: ExtractedObservation) -> bool:
        """Goes into what the conversation remembers of itself, which sums up."""
        target = self._by_alias.get((item.scope or "").strip().casefold())
        return target is not None and target.kind == "conversation"

    def _is_said(self, content: str, sources: Sequence[BufferedMessage]) -> bool:
        """Whether any of the words that tell something stands in what it was taken from, or in what was said just before.

        What a tool said doesn't count: a page that was looked up would else become the word of who says thanks for it.
        """
        words = telling(_DAY.sub(" ", content), self._names)  # a day was reckoned
        numbers = {near for message in sources for near in range(message.number - BEFORE, message.number + 1)}
        near = [message for message in self._window.messages if message.number in numbers]

        def stands(*, in_tools: bool) -> bool:
            texts = (pieces(m.content or "") for m in near if (m.role in TOOLS) is in_tools)
            return any(is_among(word, text) for text in texts for word in words)

        return (len(words) < FEW and not stands(in_tools=True)) or stands(in_tools=False)

    def _placed(self, item: ExtractedObservation, content: str, target: Target, sources: From) -> list[_Placed]:
        """Where it goes, and in which words: what others didn't hear is without contact data, or proposed."""
        confidential = (
            item.private == "confidence"
            or any(m.number in self._confided for m in sources.every)
            or said_in_confidence(content)
        )
        if target.kind == "individual":
            return [_Placed(content, target, sources, confidential=confidential)]
        cut = without_contact(content)
        if confidential or self._is_private(item, target, cut):
            self.refused["confidence" if confidential else "personal"] += 1
            own = self._open(self._author(self._authors(sources.named)))
            return [] if own is None else [_Placed(content, own, sources, confidential=confidential)]
        shown = content if self._keeps_contact(item, target, content) else cut
        if (proposed := self._proposal(target)) is not None:
            self.refused["proposed"] += 1
            return self._by_author(item, content, sources.named, proposed)
        self.refused["contact"] += shown != content
        return [_Placed(shown, target, sources)]

    def _is_private(self, item: ExtractedObservation, target: Target, text: str) -> bool:
        """Sensitive, by the model or by the rules, and about somebody.

        For those who didn't hear it, or where it is a secret, whomever it is about. Of what a group heard the model may say
        that it is nobody's: a goat's illness.
        """
        if item.private == "personal":
            return True
        found = set(classify(text).categories)
        if not found or not target.heard or found - OF_PEOPLE or holds_mark(text):
            return bool(found)
        nobodys = item.private == "no"
        return bool(item.about) or is_about_somebody(text, self._names, known_only=nobodys)

    def _keeps_contact(self, item: ExtractedObservation, target: Target, text: str) -> bool:
        """How something is reached stays with the group that heard it; how to reach somebody doesn't."""
        if target.kind != "group" or not target.heard or item.about:
            return False
        return not is_about_somebody(text, self._names) and not names_whom_it_reaches(text)

    @cached_property
    def _names(self) -> frozenset[str]:
        return self._loaded.names

    def _proposal(self, target: Target) -> str | None:
        """Who may get it by propagation alone; None: those whom it concerns have heard it, or the host has it so."""
        if target.kind == "collective":
            return "collective" if self._settings.collective == "proposed" else None
        return None if target.heard or target.state is None else f"s{target.state.scope_id}"

    def _by_author(
        self, item: ExtractedObservation, content: str, sources: Sequence[BufferedMessage], proposed: str
    ) -> list[_Placed]:
        """In the scope of each who said it, with what they said, and what the assistant did."""
        users = dict.fromkeys(m.user_id for m in sources if m.user_id)
        placed = []
        for user in users or [None]:
            own = self._open(self._author({self._window.owners[user]} if user else set()))
            if own is not None:
                mine = tuple(m for m in sources if m.user_id in (None, user))
                placed.append(_Placed(content, own, self._behind(item, content, mine), proposed=proposed))
        return placed

    def _draft(self, item: ExtractedObservation, placed: _Placed) -> Draft:
        found = classify(placed.content, is_plain=placed.content == self._plain)
        draft = replace(
            _draft(placed, found, self._loaded),
            sensitivity="sensitive" if item.private == "personal" else found.sensitivity,
            subjects=tuple(dict.fromkeys(self._people[name] for name in item.about if name in self._people)),
            terms=self._terms(item, placed, found) if self._settings.search_cues else (),
            links=self._linked_by(placed) if self._settings.graph else None,
        )
        if self._settings.classification == "model":
            draft = self._as_the_model_says(draft, item)
        if self._settings.episodes:
            draft = replace(draft, topics=topics_of(self._topics(item, placed, found), draft.tags, draft.category))
        return by_rules(draft, self._settings.classification)

    def _as_the_model_says(self, draft: Draft, item: ExtractedObservation) -> Draft:
        """With what can be read of it. What was over before it was said has a wrong day."""
        allowed = (*CATEGORIES, *self._settings.categories)
        until = None if item.until is None else date.fromisoformat(item.until)
        said_on = draft.observed_at.astimezone(self._window.zone).date()
        return replace(
            draft,
            category=item.category if item.category in allowed else None,
            confidence=None if item.sure is None else CONFIDENCE[item.sure],
            until=None if until is None or until < said_on else until,
        )

    def _terms(self, item: ExtractedObservation, placed: _Placed, found: Classification) -> tuple[str, ...]:
        """Those that say what the text doesn't, hold no secret, and tell others nothing of a kind that the text doesn't."""
        if not item.terms:
            return ()
        said, terms = set(words_of(placed.content)), dict[str, str]()
        is_own = placed.target.kind == "individual" and placed.proposed is None
        for given in item.terms:
            term = one_line(as_written(clean(given)[0]))
            if not term or len(term) > MOST_TERM_CHARACTERS or said.issuperset(words_of(term)):
                continue
            if mask(term).found or (not is_own and set(classify(term).categories) - set(found.categories)):
                self.refused["private_term"] += 1
                continue
            terms.setdefault(normal_form(term), term)
        return tuple(terms.values())[:MOST_TERMS]

    def _topics(self, item: ExtractedObservation, placed: _Placed, found: Classification) -> Iterator[str]:
        """Those that hold no secret and, where others read along, tell nothing of a kind that the text doesn't."""
        is_own = placed.target.kind == "individual" and placed.proposed is None
        for given in item.topics[:MOST_TOPICS_SAID]:
            topic = one_line(as_written(clean(given)[0]))
            told = set() if is_own else set(classify(topic).categories) - set(found.categories)
            if not mask(topic).found and not told:
                yield topic

    def _linked_by(self, placed: _Placed) -> LinkedBy:
        target = placed.target
        language = target.state.language if target.state else self._settings.language
        return LinkedBy.of(placed.content, language, self._owners_names(target), self._capitals)

    @cached_property
    def _capitals(self) -> frozenset[str]:
        language = self._settings.language
        return frozenset[str]().union(*(capitals_in(text, language) for text in (*self._said, *self._told)))

    def _owners_names(self, target: Target) -> Iterator[str]:
        if target.kind == "individual":
            spoke = (
                m for m in self._window.messages if m.user_id and self._window.owners.get(m.user_id) == target.owner
            )
            yield from (name for message in spoke for name in (message.speaker, message.user_id) if name)
            yield from filter(None, (target.display_name,))

    def _screened(self, content: str) -> str:
        """Without secrets, also where messages are refused for them: a model may have put one together."""
        masked = mask(content)
        self._plain = None if masked.found else content
        if self._settings.secrets == "keep" or not masked.found:
            return content
        self.refused["masked"] += 1
        return masked.text

    def _has_room(self, target: Target, content: str) -> bool:
        """What is said twice takes one place."""
        taken = self._taken[target.alias]
        form = normal_form(content)
        if form not in taken and len(taken) >= self._limit(target):
            self.refused["over_limit"] += 1
            return False
        if count_words(content) > (target.max_words or self._settings.observation_max_words):
            self.refused["long_but_kept"] += 1
        taken.add(form)
        return True

    def _limit(self, target: Target) -> int:
        if target.max_items is not None:  # a limit of its own, where somebody set one
            return target.max_items
        return self._settings.group_max_items if target.kind == "group" else self._settings.observation_max_items

    def _sources(self, item: ExtractedObservation) -> tuple[BufferedMessage, ...]:
        """The messages that the model points at; where it points at none, those that share most words with the text."""
        spoken = self._window.spoken
        named = [n for n in dict.fromkeys(item.sources) if 1 <= n <= len(spoken)]
        if len(named) < len(set(item.sources)):
            self.refused["unknown_source"] += 1
        if named:
            return tuple(spoken[n - 1] for n in sorted(named))
        return self._spoken.closest(item.content)

    def _behind(self, item: ExtractedObservation, content: str, named: Sequence[BufferedMessage]) -> From:
        """A day was reckoned; a cue and a topic hold words as well."""
        told = (_DAY.sub(" ", content), *item.terms, *item.topics)
        return self._spoken.behind("\n".join(told), named)

    @cached_property
    def _spoken(self) -> Sources:
        return Sources(self._window.spoken, self._loaded.called, self._confided)

    def _route(self, item: ExtractedObservation, sources: From) -> Target | None:
        """The scope that the model chose among those it was offered; where it names none, that of the one who said it.

        What is somebody's own can only come from what they said: no scope is written by somebody else's words. What is a
        group's can only come from its members.
        """
        wanted = (item.scope or "").strip().casefold()
        users = {m.user_id for m in sources.every if m.user_id}
        authors = self._authors(sources.named)
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
        individuals = [target for target in self._loaded.targets if target.kind == "individual" and target.is_main]
        if not authors and len(individuals) == 1:
            return individuals[0]
        return next((target for target in individuals if authors == {target.owner}), None)

    def _open(self, target: Target | None) -> Target | None:
        if target is None or not target.is_open:
            self.refused["no_single_author" if target is None else "inactive_scope"] += 1
            return None
        return target


def _statements(text: str) -> Iterator[str]:
    return (sentence for sentence in sentences(text) if not re.search(QUESTION, sentence))


def _takes(target: Target, users: Collection[str]) -> bool:
    """Whether what these users say may go there, as far as it is a matter of who they are."""
    return target.kind != "group" or (bool(target.members) and target.members.issuperset(users))


def _draft(placed: _Placed, found: Classification, loaded: Loaded) -> Draft:
    target, sources = placed.target, placed.sources.every
    said_at = max(m.said_at for m in placed.sources.named)
    conversation_id = loaded.conversation.conversation_id
    speakers = {m.speaker for m in placed.sources.named if m.role == "user" and m.speaker}
    return Draft(
        scope=NewScope(target.kind, target.owner, target.name, target.display_name),
        content=placed.content,
        dates=days_of(placed.content, said_at, loaded.window.zone),
        observed_at=said_at,
        source_kind="formation",
        evidence=tuple(Evidence(conversation_id, m.number, m.user_id) for m in sources),
        conversation_id=conversation_id,
        speaker=speakers.pop() if len(speakers) == 1 else None,
        message_ids=tuple(m.message_id for m in sources),
        borrowed=placed.sources.borrowed,
        confidential=placed.confidential,
        proposed=placed.proposed,
        categories=found.categories,
        sensitivity=found.sensitivity,
        lane=target.lane,
    )
