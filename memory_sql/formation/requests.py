"""What people ask the memory itself, to forget or to correct something, and which memories they mean.

Only a person asks, and only about what is theirs or what they alone have said. A model finds the requests while it reads the
conversation; where there are any, one more call shows it the memories that may be meant, by handles. What it names is
hidden, or superseded, in `lifecycle.requests`; what isn't clear enough for that waits for a person.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.queries import listed
from memory_sql.db.queries.owned import own_of
from memory_sql.db.queries.search import Sought, search
from memory_sql.db.repositories.conversations import BufferedMessage
from memory_sql.db.repositories.observations import Draft
from memory_sql.domain.ids import parse_observation_id
from memory_sql.domain.observations import Observation
from memory_sql.domain.usage import NO_CALL, Usage
from memory_sql.errors import AnswerError, PromptTooLongError, RefusedError, TruncatedError
from memory_sql.formation.answers import Extraction
from memory_sql.formation.window import Loaded
from memory_sql.languages.anchors import small_words
from memory_sql.languages.requests import may_ask_to_forget, polite_words
from memory_sql.languages.text import QUESTION, clean, normal_form, one_line, sentences
from memory_sql.languages.wording import TELLING, is_among, pieces
from memory_sql.languages.words import fold
from memory_sql.llm import LanguageModel, Request, ask, prompts
from memory_sql.llm.answers import AlsoRead
from memory_sql.llm.notation import as_lines, mark_for, minute_of
from memory_sql.privacy.classify import mask
from memory_sql.retrieval.query import parse
from memory_sql.retrieval.semantics import QueryVector

MOST_REQUESTS = 10  # of one formation
MOST_CANDIDATES = 10  # for each of them
TOOLS = frozenset({"tool", "function"})
MOST_MESSAGES = 3  # that ask for one thing
MOST_WHAT = 300  # characters
SOUGHT = 50  # observations, of which those are left that are the person's own
BEFORE = 3  # messages before the one that asks, to which it may refer
REFUSED_SHARE = 0.5  # of the words of what is to be forgotten: with more a text says it again
MOST_UNTOLD = 1  # words of a clause, unless they are less than half of it
MOST_AROUND = 4  # telling words of the clause that asks, besides what is meant
_HANDLE = re.compile(r"\bP\d{1,3}\b")
_CLAUSE_END = re.compile(r"[,;:](?=\s)|[\uFF0C\uFF1B\uFF1A\u3001]|\s[–—-]\s")

Kind = Literal["forget", "correct"]


@dataclass(frozen=True)
class Asked:
    """What one person asks for. `what` is meant, in a few words; `said` are the messages that ask; `called`: of people.

    `is_grounded`: what is meant has a word of these messages, or of those just before; `is_alone`: no other person, nor
    a tool, speaks there, who may have talked the model into it.
    """

    kind: Kind
    what: str
    user_id: str
    said: tuple[BufferedMessage, ...]
    called: frozenset[str] = frozenset()
    is_grounded: bool = True
    is_alone: bool = True

    @property
    def numbers(self) -> frozenset[int]:
        return frozenset(message.number for message in self.said)

    @property
    def said_at(self) -> datetime:
        return max(message.said_at for message in self.said)

    @cached_property
    def words(self) -> frozenset[str]:
        """By which something is meant; none: it may be anything."""
        return content_words(self.what, self.called)

    def would_keep(self, content: str, numbers: Iterable[int]) -> bool:
        """Whether a text says, from nothing but these messages, what is to be forgotten."""
        if self.kind != "forget" or not self.numbers.issuperset(numbers):
            return False
        there = pieces(content)
        again = sum(is_among(word, there) for word in self.words)
        return bool(self.words) and again > REFUSED_SHARE * len(self.words)


def content_words(text: str, called: frozenset[str]) -> frozenset[str]:
    return pieces(text) - small_words() - called


def asked_in(extraction: Extraction, loaded: Loaded, settings: Settings) -> tuple[list[Asked], Counter[str]]:
    """What people ask for, in the order of the answer, and how many requests aren't any, by reason.

    Where several people's messages are named as one request, each has asked for themselves.
    """
    found: dict[tuple[Kind, str, str], Asked] = {}
    refused: Counter[str] = Counter()
    if settings.spoken_requests == "off":
        return [], refused
    names, window = _names(loaded), loaded.window
    is_alone = len(window.persons) == 1 and not any(message.role in TOOLS for message in window.spoken)
    called = frozenset[str]().union(*map(pieces, names.values()))
    for n, one in enumerate(extraction.requests):
        if len(found) >= MOST_REQUESTS:
            refused["too_many_requests"] += len(extraction.requests) - n
            break
        what = _HANDLE.sub(lambda handle: names.get(handle[0], handle[0]), mask(clean(one.what)[0]).text)
        what = one_line(what)[:MOST_WHAT].strip()
        by_user = _by_user(one.sources, window.spoken)
        if not what or not by_user:
            refused["no_request"] += 1
            continue
        words = content_words(what, called)
        for user_id, named in by_user.items():
            said = _asking(named, words)
            is_grounded = _is_grounded(words, said, window.messages)
            asked = Asked(one.kind, what, user_id, said, called, is_grounded, is_alone)
            found.setdefault((one.kind, user_id, normal_form(what)), asked)
    return list(found.values())[:MOST_REQUESTS], +refused


def _names(loaded: Loaded) -> dict[str, str]:
    """How people are called, by their handles in the prompt."""
    speakers = {m.user_id: m.speaker for m in loaded.window.messages if m.user_id and m.speaker}
    return {handle: speakers.get(user_id) or user_id for handle, user_id in loaded.people.items()}


def _by_user(sources: Iterable[int], spoken: Sequence[BufferedMessage]) -> dict[str, tuple[BufferedMessage, ...]]:
    said: dict[str, tuple[BufferedMessage, ...]] = {}
    for n in sorted({n for n in sources if 1 <= n <= len(spoken)}):
        message = spoken[n - 1]
        if message.role == "user" and message.user_id:
            said[message.user_id] = (*said.get(message.user_id, ()), message)
    return said


def _asking(named: Sequence[BufferedMessage], words: frozenset[str]) -> tuple[BufferedMessage, ...]:
    """Of several messages those that may ask for it: they lose their texts, whatever a model says of the others."""
    may = (
        message
        for message in named
        if may_ask_to_forget(message.content or "")
        or any(is_among(word, pieces(message.content or "")) for word in words)
    )
    return (*named,) if len(named) == 1 else (*may,)[-MOST_MESSAGES:] or (*named[-1:],)


def _is_grounded(words: frozenset[str], said: Sequence[BufferedMessage], messages: Sequence[BufferedMessage]) -> bool:
    near = {n for message in said for n in range(message.number - BEFORE, message.number + 1)}
    texts = [pieces(m.content or "") for m in messages if m.number in near and m.role not in TOOLS]
    return any(is_among(word, text) for text in texts for word in words)


@dataclass(frozen=True, slots=True)
class Candidate:
    """What may be meant. One with a `place` is among the drafts of the same answer, and not stored yet."""

    handle: str
    text: str
    said_at: datetime
    observation_id: str | None = None
    place: int | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """A request with what may be meant, and the places of the drafts that were made of the same messages."""

    asked: Asked
    candidates: tuple[Candidate, ...] = ()
    news: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True)
class Meant:
    """A request with what is meant: observations, drafts of the same answer; by which drafts it is corrected.

    `unsure`: why a person has to decide, in one word; None: it is clear. `texts`: of what is meant.
    """

    asked: Asked
    observations: tuple[str, ...] = ()
    places: tuple[int, ...] = ()
    news: tuple[int, ...] = ()
    unsure: str | None = None
    texts: tuple[str, ...] = ()

    @property
    def scopes(self) -> set[int]:
        return {parse_observation_id(one)[0] for one in self.observations}


async def candidates(
    session: Session, loaded: Loaded, asked: Sequence[Asked], vectors: Sequence[QueryVector]
) -> list[list[Observation]]:
    """Of each request, what may be meant: what it finds, then the newest; at most `MOST_CANDIDATES`, all older than it.

    `vectors`: those of what is meant. Only what the person sees, and owns or alone has said.
    """
    return [await _candidates(session, loaded, *one) for one in zip(asked, vectors, strict=True)]


async def _candidates(session: Session, loaded: Loaded, asked: Asked, meant: QueryVector) -> list[Observation]:
    if not asked.words:
        return []
    conversation = loaded.conversation
    principal = {
        "agent_id": conversation.agent_id,
        "user_id": asked.user_id,
        "conversation_id": conversation.conversation_id,
    }
    query = parse(asked.what, loaded.now, loaded.window.zone, _language(loaded), operators=False)
    query = query._replace(terms=tuple(term for term in query.terms if fold(term.text) not in asked.called))
    sought = Sought(now=loaded.now, observations=SOUGHT, vector=meant.vector, model=meant.model)
    hits = (await search(session, principal, query, sought)).hits
    newest = await listed.page(session, principal, None, SOUGHT, None)
    found = {one.id: one for one in (*(hit.observation for hit in hits), *newest)}
    older = [one for one in found.values() if one.status == "active" and one.observed_at <= asked.said_at]
    keys = [parse_observation_id(one.id) for one in older]
    own = await own_of(session, conversation.agent_id, asked.user_id, keys)
    return [one for one, key in zip(older, keys, strict=True) if key in own][:MOST_CANDIDATES]


def _language(loaded: Loaded) -> str:
    return next((target.state.language for target in loaded.targets if target.state), "english")


def choices(
    asked: Sequence[Asked], found: Sequence[Sequence[Observation]], drafts: Sequence[Draft], where: str
) -> list[Choice]:
    """What is put to the model; `where`: the conversation. What was said before in the same messages comes first."""
    handles = (f"M{n}" for n in range(1, 1_000_000))
    return [
        Choice(
            one,
            (
                *(
                    Candidate(next(handles), draft.content, draft.observed_at, place=place)
                    for place, draft in enumerate(drafts)
                    if _was_said_before(draft, one, where)
                ),
                *(Candidate(next(handles), known.content, known.observed_at, known.id) for known in observations),
            )[:MOST_CANDIDATES],
            tuple(
                Candidate("", draft.content, draft.observed_at, place=place)
                for place, draft in enumerate(drafts)
                if one.kind == "correct" and _is_said_with(draft, one, where)
            ),
        )
        for one, observations in zip(asked, found, strict=True)
    ]


def _was_said_before(draft: Draft, asked: Asked, where: str) -> bool:
    """By the same person alone, and it may be what is meant."""
    numbers = _taken_from(draft, where)
    is_before = bool(numbers) and max(numbers) < min(asked.numbers)
    is_theirs = {*draft.related_users} == {asked.user_id}
    return is_before and is_theirs and any(is_among(word, pieces(draft.content)) for word in asked.words)


def _is_said_with(draft: Draft, asked: Asked, where: str) -> bool:
    return not _taken_from(draft, where).isdisjoint(asked.numbers) and {*draft.related_users} == {asked.user_id}


def _taken_from(draft: Draft, where: str) -> set[int]:
    return {one.number or 0 for one in draft.evidence if one.conversation_id == where} - draft.borrowed


class Named(BaseModel):  # no docstring: it would go into the schema, and so to the model
    model_config = ConfigDict(extra="ignore")

    request: str
    memories: list[str]


class MeantAnswer(AlsoRead):  # no docstring, as well
    model_config = ConfigDict(extra="ignore")

    meant: list[Named] = Field(default_factory=list)

    @classmethod
    def in_form(cls, value: object) -> object:
        """A list alone, or the requests with their lists."""
        if isinstance(value, list):
            return {"meant": value}
        if isinstance(value, dict) and value and all(isinstance(one, list) for one in value.values()):
            return {"meant": [{"request": name, "memories": one} for name, one in value.items()]}
        return None


@dataclass(frozen=True, slots=True)
class MeantTask:
    """Which of the memories shown are meant by each request."""

    choices: Sequence[Choice]

    @property
    def is_empty(self) -> bool:
        return not any(choice.candidates for choice in self.choices)

    def request(self, model: str) -> Request[MeantAnswer]:
        prompt = prompts.load("memory_sql.formation", "requests", "requests.md")
        asked = as_lines([line for n, choice in enumerate(self.choices, 1) for line in _lines(n, choice)])
        mark = mark_for(asked)
        instructions, text = prompt.render(boundary=mark, requests=asked)
        return Request("extraction", model, instructions, text, MeantAnswer, self, prompt.version, mark)

    def by_rule(self) -> MeantAnswer:
        """Those that have all words of what is meant."""
        return MeantAnswer(
            meant=[
                Named(
                    request=f"R{n}", memories=[one.handle for one in choice.candidates if _has_all(one, choice.asked)]
                )
                for n, choice in enumerate(self.choices, 1)
            ]
        )

    def meant(self, answer: MeantAnswer, settings: Settings) -> list[Meant]:
        """What each request names of what it was shown; a handle that it wasn't shown is nothing."""
        named: dict[str, set[str]] = {}
        for one in answer.meant:
            named.setdefault(one.request.strip(), set()).update(handle.strip() for handle in one.memories)
        return [_meant(choice, named.get(f"R{n}", set()), settings) for n, choice in enumerate(self.choices, 1)]


def _lines(n: int, choice: Choice) -> Iterable[dict[str, Any]]:
    asked = choice.asked
    said = " … ".join(message.content or "" for message in asked.said)
    line = {"request": f"R{n}", "kind": asked.kind, "what": asked.what, "said": said[:1_000]}
    yield {**line, "new": [one.text for one in choice.news]} if choice.news else line
    for one in choice.candidates:
        yield {"memory": one.handle, "of": f"R{n}", "said_at": minute_of(one.said_at), "text": one.text}


def _has_all(one: Candidate, asked: Asked) -> bool:
    there = pieces(one.text)
    return bool(asked.words) and all(is_among(word, there) for word in asked.words)


def _meant(choice: Choice, handles: set[str], settings: Settings) -> Meant:
    asked, chosen = choice.asked, [one for one in choice.candidates if one.handle in handles]
    return Meant(
        asked,
        tuple(one.observation_id for one in chosen if one.observation_id is not None),
        tuple(one.place for one in chosen if one.place is not None),
        tuple(one.place for one in choice.news if one.place is not None),
        _why_unsure(asked, chosen, settings),
        tuple(one.text for one in chosen),
    )


def _why_unsure(asked: Asked, chosen: Sequence[Candidate], settings: Settings) -> str | None:
    if not asked.words:
        return "anything"
    if asked.kind == "forget" and not asked.is_grounded:
        return "not_said"
    if (
        asked.kind == "forget"
        and not asked.is_alone
        and not any(may_ask_to_forget(m.content or "") for m in asked.said)
    ):
        return "not_asked"
    if not chosen:
        return "not_found"
    return "review" if settings.spoken_requests == "review" else None


def says_more(text: str, told: Iterable[str], called: frozenset[str]) -> bool:
    """Whether a message that asks says something else as well, which none of these tells: a figure, or some words.

    `told`: what is meant, and what was stored of the message. Questions tell nothing.
    """
    there = frozenset[str]().union(*map(pieces, told)) | called
    clauses = [
        _Clause(asks, words, tuple(word for word in words if not is_among(word, there)))
        for sentence in sentences(text)
        for part in _CLAUSE_END.split(sentence)
        if (asks := may_ask_to_forget(part)) or not re.search(QUESTION, sentence)
        for words in (pieces(part) - small_words() - polite_words(),)
    ]
    if not any(one.asks for one in clauses):  # in a language without rules, or in other words
        most = max((one.told for one in clauses), default=0)
        clauses = [one.figures() if one.told == most else one for one in clauses]
    return any(one.says_more for one in clauses)


def saying_more(asked: Iterable[Asked], told: Mapping[int, Sequence[str]]) -> frozenset[int]:
    """The messages that ask and say more. `told`: what is meant and what was stored, by the message's number."""
    return frozenset(
        message.number
        for one in asked
        for message in one.said
        if says_more(message.content or "", told.get(message.number, ()), one.called)
    )


@dataclass(frozen=True, slots=True)
class _Clause:
    """`left`: its words that are told nowhere else."""

    asks: bool
    words: frozenset[str]
    left: tuple[str, ...]

    @property
    def told(self) -> int:
        return len(self.words) - len(self.left)

    @property
    def says_more(self) -> bool:
        if any(word.isdigit() for word in self.left):
            return True
        if self.asks:
            return sum(len(word) >= TELLING for word in self.left) > MOST_AROUND
        return len(self.left) > MOST_UNTOLD and len(self.left) > self.told

    def figures(self) -> _Clause:
        return replace(self, left=tuple(word for word in self.left if word.isdigit()))


async def ask_which(llm: LanguageModel, model: str, task: MeantTask) -> tuple[MeantAnswer, Usage]:
    """What the model names; an answer that can't be used names nothing, so that people decide. Raises what may pass."""
    if task.is_empty:
        return MeantAnswer(), NO_CALL
    try:
        answer = await ask(llm, task.request(model))
    except (AnswerError, TruncatedError, RefusedError, PromptTooLongError) as error:
        return MeantAnswer(), error.usage if isinstance(error.usage, Usage) else Usage("")
    return answer.value, answer.usage
