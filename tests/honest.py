"""The table of honest answers: `tests/acceptance/honest/*.toml`, a file for each walk of life.

A case says what came in, what a strong model answers to the prompt, and what must then be stored, all written by hand.
What the model wrote must be stored byte for byte: `in` names its scope, `as` the text stored instead if a secret or
contact data is removed. Without `in` it isn't stored, and `refused` gives the reason.
"""

from __future__ import annotations

import json
import logging
import re
import tomllib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from memory_sql.config import Settings
from memory_sql.domain.observations import Observation
from memory_sql.domain.results import ConsolidateResult, PropagateResult
from memory_sql.domain.scopes import ScopeRef
from memory_sql.llm.notation import NOTHING_YET as NOTHING_YET
from memory_sql.llm.openai import OpenAI
from memory_sql.memory import Memory
from tests import decoys
from tests.loopback import Loopback, Received, answering, loopback
from tests.obedient import sections

log = logging.getLogger(__name__)
TABLE = Path(__file__).parent / "acceptance" / "honest"
AGENT: dict[str, Any] = {"agent_id": "ada"}
ROLES = ("assistant", "tool", "function", "system")
Roles = Literal["assistant", "tool", "function", "system"]

Moment = Annotated[datetime, AfterValidator(lambda moment: moment.replace(tzinfo=moment.tzinfo or UTC))]
Told = tuple[Moment, str]
Said = tuple[str, Moment, str]  # who, when, what


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Case(_Strict):
    """`points`: the requirements that it shows. `settings`: the agent's own; `then`: those set before the last answer."""

    name: str
    language: Literal["en", "de", "fr", "es", "nl", "fi"]
    points: tuple[int, ...] = ()
    settings: dict[str, Any] = Field(default_factory=dict)
    then: dict[str, Any] = Field(default_factory=dict)


class Item(_Strict):
    """An observation as the model writes it, followed by what must become of it.

    `about` names people as the conversation does; the model writes their handles. `also`: more sources, whose words it has.
    `cues`: the terms that are kept, unless all are. `days`: the days by which it is found. `category`, `sure` and `until` as
    the model writes them, in one label; `is_until`: the day that is stored, where that is another.
    """

    content: str
    sources: list[int]
    scope: str
    terms: list[str] = []
    about: list[str] = []
    kept_in: str | None = Field(None, alias="in")
    kept_as: str | None = Field(None, alias="as")
    proposed: str | None = None
    also: list[int] = []
    cues: list[str] | None = None
    days: list[str] | None = None
    category: str | None = None
    sure: str | None = None
    until: str | None = None
    is_until: str | None = None

    @property
    def label(self) -> str:
        return " ".join(filter(None, (self.sure, self.category, self.until and f"until {self.until}")))

    def finding(self, people: Mapping[str, str]) -> dict[str, Any]:
        about = [people[name] for name in self.about]
        return {
            "content": self.content,
            "sources": self.sources,
            "about": about,
            "terms": self.terms,
            "label": self.label,
        }


class Extraction(Case):
    """A conversation. A speaker's id is their name in lower case. `known`: what somebody's scope already holds.

    `members`: group members who don't speak.
    """

    said: list[Said]
    answer: list[Item]
    zone: str | None = None
    groups: list[str] = []
    members: list[str] = []
    known: dict[str, list[Told]] = Field(default_factory=dict)
    refused: dict[str, int] = Field(default_factory=dict)


class Consolidation(Case):
    """A scope's text so far, made from `known`; the new observations; and the text that the model makes from both.

    In its lists the model refers to what it was shown by number; a case refers to it by its first words. `superseded` and
    `repeated`: the observations that are superseded, or turned into repetitions, afterwards. All others stay as they
    were.
    """

    of: str
    new: list[Told]
    answer: str
    text: str | None = None
    known: list[Told] = []
    contradictions: list[dict[str, str]] = []
    same_as: list[dict[str, str]] = []
    left_out: list[dict[str, str]] = []
    figures: list[dict[str, Any]] = []
    superseded: list[str] = []
    repeated: list[str] = []


NOT_OFFERED = "not offered"


class Claim(_Strict):
    """Something known in a narrow scope, and its wording in the wider one, `shared`.

    `shown`: the text that the model is shown if contact data was removed. `no`: the criterion that it finds unmet.
    `withheld`: the reason why the model never sees it; what is marked as sensitive isn't even considered.
    """

    text: str
    shown: str | None = None
    shared: str | None = None
    no: Literal["personal", "not_general", "not_valuable"] | None = None
    withheld: str | None = None
    by: str | None = None

    @property
    def decision(self) -> dict[str, Any]:
        return {
            "personal": self.no == "personal",
            "general": self.no not in ("personal", "not_general"),
            "valuable": self.no is None,
            "text": self.shared or "",
        }


class Propagation(Case):
    """What one member of a group knows, or several groups do (`by`: `user group`), and what a judge shares of it."""

    to: str
    claims: list[Claim]
    of: str = "ben"


class File(_Strict):
    """`software`: whether this walk of life is software development."""

    walk: str
    software: bool = False
    extraction: list[Extraction] = []
    consolidation: list[Consolidation] = []
    propagation: list[Propagation] = []

    @property
    def cases(self) -> list[Case]:
        return [*self.extraction, *self.consolidation, *self.propagation]


def files() -> dict[str, File]:
    return {path.stem: File.model_validate(tomllib.loads(path.read_text("utf-8"))) for path in sorted(TABLE.glob("*"))}


def as_parameters(by_file: Mapping[str, Sequence[Case]]) -> list[Any]:
    """Each case as a parameter of a test, named by its file and its own name."""
    return [pytest.param(case, id=f"{stem}: {case.name}") for stem, cases in by_file.items() for case in cases]


@dataclass(slots=True)
class Clock:
    """Moves on by a second with each reading."""

    now: datetime = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@dataclass(slots=True)
class Table:
    """A memory on which cases are played. The model is the real client, on a server that gets its answers from `write`."""

    memory: Memory
    server: Loopback
    clock: Clock
    write: Callable[[Received], dict[str, Any]] = lambda _: {}

    def answer(self, received: Received) -> str:
        """What it writes after reading the prompt. If it is asked again, it has nothing else to say."""
        log.warning("… %s", received.instructions[-300:])  # pytest shows it if a case fails: why it was asked again
        return json.dumps(self.write(received), ensure_ascii=False)

    async def begin(self, case: Case) -> None:
        if case.settings:
            await self.memory.configure(**AGENT, **case.settings)


@asynccontextmanager
async def table(url: str, settings: Settings | None = None) -> AsyncIterator[Table]:
    clock = Clock()
    async with loopback(answering(lambda received: laid.answer(received))) as server:
        model = OpenAI(base_url=server.base_url, max_retries=0)
        try:
            async with Memory(url, model, settings, clock=clock) as memory:
                laid = Table(memory, server, clock)
                yield laid
        finally:
            await model.close()


def id_of(name: str) -> str:
    return name.lower().replace(" ", "-")


def messages(said: list[Said]) -> list[dict[str, Any]]:
    """Numbered from 1, as in the answers."""
    return [
        {"id": f"m{n}", "content": text, "created_at": at, **_speaker(who)} for n, (who, at, text) in enumerate(said, 1)
    ]


def _speaker(who: str) -> dict[str, Any]:
    return {"role": who} if who in ROLES else {"role": "user", "name": who, "user_id": id_of(who)}


def place_of(scope: ScopeRef) -> str:
    """The name of a scope in cases: a user's id, `group choir`, `collective`."""
    return {"individual": f"{scope.owner_id}", "group": f"group {scope.owner_id}"}.get(scope.kind, scope.kind)


def owner_of(place: str) -> dict[str, Any]:
    kind, _, name = place.partition(" ")
    if kind == "collective":
        return {"collective": True}
    return {"group_id": name} if kind == "group" else {"user_id": place}


def stored(observation: Observation, groups: Mapping[str, str]) -> tuple[Any, ...]:
    """Its scope, its text, the messages it was made from, and the group to which it is proposed, by that group's scope."""
    proposed = groups.get(str(observation.proposed), observation.proposed)
    return place_of(observation.scope), observation.content, observation.source.message_ids, proposed


def expected(item: Item) -> tuple[Any, ...]:
    return (
        item.kept_in,
        item.kept_as or item.content,
        tuple(f"m{n}" for n in sorted([*item.sources, *item.also])),
        item.proposed,
    )


async def extract(laid: Table, case: Extraction) -> Any:
    """Plays the conversation and the model's answer to it. Returns the result of the formation."""
    await laid.begin(case)
    for place, known in case.known.items():
        for at, text in known:
            await laid.memory.observe(text, **AGENT, **owner_of(place), observed_at=at)
    for who in case.members:
        hello = messages([(who, laid.clock(), "Hello.")])
        mine: dict[str, Any] = {**AGENT, "user_id": id_of(who)}
        await laid.memory.add(hello, **mine, conversation_id=f"hello-{who}", group_ids=case.groups)
        await laid.memory.observe(f"{who} says hello.", **mine, speaker=who)  # so that their names are known
    people = [who for who, _, _ in case.said if who not in ROLES]
    here = {**AGENT, "conversation_id": "talk"}
    laid.clock.now = case.said[-1][1]
    await laid.memory.add(
        messages(case.said), **here, user_id=id_of(people[0]), group_ids=case.groups, time_zone=case.zone
    )
    laid.write = lambda received: lists(received, case.answer)
    return await laid.memory.conversations.form(**here)


def lists(received: Received, items: list[Item]) -> dict[str, Any]:
    """The answer in the form of the schema: a list for each scope that was offered."""
    assert received.schema is not None
    answer: dict[str, list[Any]] = {alias: [] for alias in received.schema["properties"]}
    people = {json.loads(name): handle for handle, name in _PEOPLE.findall(received.prompt)}
    for item in items:
        answer[item.scope].append(item.finding(people))
    return answer


_PEOPLE = re.compile(r'^(P\d+)(?:, who says nothing here,)? is (".*")$', re.MULTILINE)


async def consolidate(laid: Table, case: Consolidation) -> ConsolidateResult:
    """Plays the text so far and what follows. Returns the result of the last consolidation."""
    await laid.begin(case)
    scope = None
    for told, answer in ((case.known, case.text), (case.new, case.answer)):
        if told is case.new and case.then:
            await laid.memory.configure(**AGENT, **case.then)
        for at, text in told:
            laid.clock.now = max(laid.clock.now, at)
            scope = (await laid.memory.observe(text, **AGENT, **owner_of(case.of), observed_at=at)).scope
        if answer is not None:
            laid.write = writing(answer, case if told is case.new else None)
            assert scope is not None
            result = await laid.memory.scopes.consolidate(**AGENT, scope_id=scope.id)
    return result


def writing(text: str, case: Consolidation | None) -> Callable[[Received], dict[str, Any]]:
    def answer(received: Received) -> dict[str, Any]:
        shown = dict(_SHOWN.findall(received.prompt))
        texts = {number: json.loads(text) for number, text in shown.items()}
        lists = {
            "contradictions": case.contradictions if case else [],
            "same_as": case.same_as if case else [],
            "left_out": case.left_out if case else [],
            "figures": case.figures if case else [],
        }
        return {"text": text} | {name: [_numbered(item, texts) for item in items] for name, items in lists.items()}

    return answer


_SHOWN = re.compile(r'^([skn]\d+) (?:\S+ (?:\(\w+\) )?)?(".*")$', re.MULTILINE)
_REFERENCES = ("newer", "older", "n", "same_as", "what", "by", "of")


def _numbered(item: Mapping[str, Any], shown: Mapping[str, str]) -> dict[str, Any]:
    """Replaces names by the numbers in the prompt. A case names an item by its beginning: `k: The fee is`."""

    def number_of(name: str) -> str:
        kind, _, beginning = name.partition(": ")
        [number] = [n for n, text in shown.items() if n.startswith(kind) and text.startswith(beginning)]
        return number

    def numbered(value: Any) -> Any:
        return [number_of(each) for each in value] if isinstance(value, list) else number_of(value)

    return {key: numbered(value) if key in _REFERENCES else value for key, value in item.items()}


async def propagate(laid: Table, case: Propagation) -> PropagateResult:
    """Plays who knows what, in texts of their own, and the judgement. People have been known for ten days."""
    await laid.begin(case)
    scopes = dict[str, str]()
    places = [claim.by or f"{case.of} {case.to.partition(' ')[2]}" for claim in case.claims]
    for user, group in {tuple(place.split(" ", 1)) for place in places}:
        for name in (user, "zed"):  # nobody is alone in a group
            await laid.memory.add(
                messages([(name.capitalize(), laid.clock(), "Hello.")]),
                **AGENT,
                user_id=name,
                conversation_id=f"{group}-{name}",
                group_ids=[group],
            )
    laid.clock.now += timedelta(days=10)
    for claim, place in zip(case.claims, places, strict=True):
        user, _, group = place.partition(" ")
        whose: dict[str, Any] = {"user_id": user} | ({"group_id": group} if claim.by else {})
        scope = (await laid.memory.observe(claim.text, **AGENT, **whose)).scope
        scopes[scope.id] = f"{scopes.get(scope.id, '')} {claim.text}".strip()
    for scope_id, text in scopes.items():
        laid.write = writing(text, None)
        await laid.memory.scopes.consolidate(**AGENT, scope_id=scope_id)
    laid.write = lambda received: judging(received, case.claims)
    laid.server.requests.clear()
    return await laid.memory.scopes.propagate(**AGENT)


def judging(received: Received, claims: Sequence[Claim]) -> dict[str, Any]:
    """The case's decisions on its claims, and the right answers to decoys."""
    known = {claim.shown or claim.text: claim.decision for claim in claims if claim.withheld is None}
    decisions = []
    for line in sections(received.prompt)["claims"].splitlines():
        claim = json.loads(line)
        said = known.get(claim["text"]) or {**decoys.verdict(claim["text"]), "text": claim["text"]}
        assert claim["text"] in known or decoys.is_decoy(claim["text"]), "the model gets to read what was withheld"
        decisions += [{"n": claim["n"], "to": to, **said} for to in claim["to"]]
    return {"decisions": decisions}
