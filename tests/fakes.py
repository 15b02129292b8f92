"""A language model whose answers a test gives, and other models for tests. Nothing else is faked."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel

from memory_sql.formation.answers import Turn
from memory_sql.formation.task import ExtractionTask
from memory_sql.llm import Answer, Request, Usage
from memory_sql.llm.answers import read
from memory_sql.propagation.task import PropagationTask
from tests.decoys import verdict
from tests.judges import Judge

T = TypeVar("T", bound=BaseModel | str)
HOPELESS = ("nonsense",) * 3  # an answer, its repair, the first scope alone: then a formation of several fails
Reply = str | BaseException | Callable[[Request[Any]], "str | Awaitable[str]"]


class Scripted:
    """Gives the replies in turn, parsed as real answers are. Records the requests.

    A request without a reply fails the test, whatever the code under test makes of the error (the fixture
    `_no_question_too_many`), unless the test sets `may_run_out`.
    """

    too_many: ClassVar[list[str]] = []

    def __init__(self, *replies: Reply, may_run_out: bool = False) -> None:
        self.replies = list(replies)
        self.may_run_out = may_run_out
        self.requests: list[Request[Any]] = []

    def then(self, *replies: Reply) -> None:
        self.replies += replies

    async def generate(self, request: Request[T]) -> Answer[T]:
        self.requests.append(request)
        if not self.replies:
            raise self._asked_too_often(request)
        reply = self.replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        if callable(reply):
            answered = reply(request)
            reply = answered if isinstance(answered, str) else await answered
        return Answer(read(reply, request.output), reply, Usage("scripted", 100, 10, 0.01))

    @property
    def windows(self) -> list[int]:
        """How many messages each extraction request showed."""
        tasks = [request.material for request in self.requests]
        return [len(task.turns) for task in tasks if isinstance(task, ExtractionTask)]

    def _asked_too_often(self, request: Request[Any]) -> AssertionError:
        what = f"the model was asked once too often: {request.purpose}"
        if not self.may_run_out:
            self.too_many.append(what)
        return AssertionError(what)


Item = tuple[str, str] | tuple[str, str, list[int]]  # content, scope, sources


def extracted(*items: Item) -> str:
    """The answer to an extraction as one flat list, independent of the scopes offered."""
    return json.dumps({"observations": [{**_finding(item), "scope": item[1]} for item in items]})


def by_scope(offered: Iterable[str], *items: Item) -> str:
    """The answer to an extraction in the requested form: a list for each scope, offered or invented."""
    lists: dict[str, list[dict[str, Any]]] = {alias: [] for alias in offered}
    for item in items:
        lists.setdefault(item[1], []).append(_finding(item))
    return json.dumps(lists)


def listing(*items: Item) -> Callable[[Request[Any]], str]:
    """As `by_scope`, for whatever the request offers."""
    return lambda request: by_scope(request.output.offered, *items)


def _finding(item: Item) -> dict[str, Any]:
    return {"content": item[0], "sources": list(item[2]) if len(item) == 3 else [1]}


def promoted(task: PropagationTask, said: Callable[[str], str] = str, judge: Judge = verdict) -> str:
    """Shares everything everywhere, worded by `said`, and answers decoys correctly; or judges as another judge does."""
    decisions = [
        {
            "n": claim.n,
            "to": to,
            **judge(claim.text),
            "text": said(claim.text),
        }
        for claim in task.claims
        for to in claim.to
    ]
    return json.dumps({"decisions": decisions})


class Parrot:
    """Remembers every word: an observation of each user's turn, and a text of everything that it is shown.

    It never refuses, and would share everything with everybody. A turn that says "we" goes to the group, if there is one;
    one that says "everybody" goes to all; any other to the speaker. `meanwhile` is awaited once, before the next answer.
    `extracted`: the observations of the next extraction, each as `(content, kind of scope, sources)`.
    """

    def __init__(self) -> None:
        self.requests: list[Request[Any]] = []
        self.meanwhile: Callable[[], Awaitable[Any]] | None = None
        self.failing: BaseException | None = None
        self.extracted: list[tuple[str, str, list[int]]] = []
        self.rewritten: dict[str, str] = {}
        self.promote: Callable[[PropagationTask], str | None] | None = None  # None: everything
        self._contradicted: str | None = None

    def contradicts(self, text: str) -> None:
        """In the next text the last observation contradicts the one with this text."""
        self._contradicted = text

    async def generate(self, request: Request[T]) -> Answer[T]:
        self.requests.append(request)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        if self.failing is not None:
            raise self.failing
        task = request.material
        reply = self._reply(task)
        return Answer(read(reply, request.output), reply, Usage("parrot", 100, 10, 0.01))

    def _reply(self, task: object) -> str:
        if isinstance(task, ExtractionTask):
            return self._extract(task)
        return self._promote(task) if isinstance(task, PropagationTask) else self._tell(task)

    def _promote(self, task: PropagationTask) -> str:
        """Shares everything, in the original words or in those of `rewritten`."""
        other = self.promote(task) if self.promote else None
        if other is not None:
            return other
        return promoted(task, self._said)

    def _said(self, text: str) -> str:
        return self.rewritten.get(text, text.partition(" said: ")[2] or text)

    def _extract(self, task: ExtractionTask) -> str:
        said = [(turn.text, self._whose(turn, task), [turn.n]) for turn in task.turns if turn.role == "user"]
        if self.extracted:
            by_kind = {scope.kind: scope.alias for scope in task.scopes}
            said = [(text, by_kind[kind], sources) for text, kind, sources in self.extracted]
            self.extracted = []
        return extracted(*said)

    def _whose(self, turn: Turn, task: ExtractionTask) -> str:
        words = turn.text.casefold().split()
        kind = "group" if "we" in words else "collective" if "everybody" in words else "individual"
        offered = [scope.alias for scope in task.scopes if scope.kind == kind]
        mine = [alias for alias in offered if alias.endswith(turn.person or "")]
        return (mine or offered or ["individual"])[0]

    def _tell(self, task: Any) -> str:
        text = " ".join(filter(None, [task.current, *(item.text for item in task.observations)]))
        if self._contradicted is None:
            return text
        contradicted, self._contradicted = self._contradicted, None
        (older,) = [item.n for item in task.observations if item.text == contradicted]
        return json.dumps(
            {"text": text, "contradictions": [{"newer": task.observations[-1].n, "older": older, "was": contradicted}]}
        )


CONCEPTS = ("boat ship vessel sloop ferry", "tea coffee drink", "doctor surgeon clinic", "dog puppy hound")

DIMENSIONS_OF_EACH = 3  # so that two texts of one concept differ in fewer signs than two of different ones


class Meanings:
    """An embedding model that knows a few words of similar meaning.

    All other words of a text make up one dimension of its own.

    Records the texts. `meanwhile` is awaited once, before the next answer; `failing` is raised.
    """

    def __init__(self, name: str = "meanings", dimensions: int = 16, *, local: bool = False) -> None:
        self.name = name
        self.dimensions = dimensions
        self.local = local
        self.texts: list[str] = []
        self.calls = 0
        self.meanwhile: Callable[[], Awaitable[Any]] | None = None
        self.failing: BaseException | None = None
        self.without: str | None = None  # texts that contain it get a vector of `nothing`
        self.nothing = 0.0

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.calls += 1
        self.texts += texts
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        if self.failing is not None:
            raise self.failing
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        if self.without is not None and self.without in text:
            return [self.nothing] * self.dimensions
        words = set(re.findall(r"\w+", text.casefold()))
        known = [float(bool(words & set(concept.split()))) for concept in CONCEPTS for _ in range(DIMENSIONS_OF_EACH)]
        own = [0.0] * (self.dimensions - len(known))
        own[sum(map(ord, text)) % len(own)] = 0.2
        return known + own


def offered(request: Request[Any]) -> list[str]:
    """The aliases of the scopes that an extraction was asked about."""
    assert isinstance(request.material, ExtractionTask)
    return [scope.alias for scope in request.material.scopes]
