"""`python -m benchmarks.recall.whole_path`: invented conversations on the whole path, and what a context then shows.

They are added, formed and consolidated with the recorded answers. Then each question's asker asks `context`, once for each
way to remember: texts alone, messages alone, observations, with search cues, with vectors. By kind of question:

- answered: the texts that are always shown answer it, or it is shown;
- shown: all of its evidence is in retrieved or pending lines, as an observation made from it or as the message itself;
- stale first: an overtaken observation or message is shown above all of the evidence.

The second figure of each is for the questions that the texts don't answer completely. Tasks need a fact and ask nothing; the
same questions are asked in other forms (`VARIANTS`) and languages. For ordinary messages of the users, what the retrieved
lines cost, in tokens. `with evidence`: of the retrieved lines of questions and tasks, the share that holds evidence. Nobody
may be shown what is forbidden to them, or what another said in private: both must be 0.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.recall.metrics import mean
from benchmarks.recall.plain import beside
from benchmarks.recall.recorded import INVENTED, Conversations, Question, RecordedModel, Row, recorded, said_at
from benchmarks.server import analyze, fresh_database, server
from memory_sql.config import Settings
from memory_sql.domain.observations import Observation
from memory_sql.domain.reading import Context
from memory_sql.languages.text import count_tokens
from memory_sql.llm.embeddings import ENCODER
from memory_sql.memory import Memory

FILLED: dict[str, Any] = {"llm": "offline", "embedding_local_seconds": 60}  # all else as by default
RETRIEVED = ("RetrievedObservations", "RetrievedMessages")
UNANSWERABLE = ("none", "forbidden")
APART = (*UNANSWERABLE, "task")  # from the questions that memory answers
VARIANTS: dict[str, Callable[[str], str]] = {
    "without a mark": lambda text: text.replace("?", ""),
    "lower case": str.lower,
    "greeted": lambda text: f"Hi there, hope you're well! {text}",
}


@dataclass(frozen=True, slots=True)
class Way:
    """How something is remembered. `days`: how long messages keep their texts; None: for ever. `graph`: follows links."""

    name: str
    formed: bool = True
    cues: bool = False
    vectors: bool = False
    days: float | None = 0
    retrieve: bool | None = None
    graph: bool = False

    @property
    def settings(self) -> Settings:
        return Settings(
            **FILLED,
            search_cues=self.cues,
            message_retention_days=self.days,
            graph=self.graph,
            embedding="local" if self.vectors else "off",
        )


WAYS = (
    Way("texts", retrieve=False),
    Way("messages", formed=False, days=None),
    Way("observations"),
    Way("cues", cues=True),
    Way("vectors", vectors=True),
    Way("both", cues=True, vectors=True),
    Way("cues and links", cues=True, graph=True),
    Way("both and links", cues=True, vectors=True, graph=True),
    Way("cues and messages", cues=True, days=None),
    Way("both and messages", cues=True, vectors=True, days=None),
    Way("cues and messages of 30 days", cues=True, days=30),
    Way("always: cues and messages", cues=True, days=None, retrieve=True),
    Way("always: both and messages", cues=True, vectors=True, days=None, retrieve=True),
)


class Clock:
    """Shows the time of the conversations."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


@dataclass(frozen=True, slots=True)
class Line:
    """`sources`: the messages behind it. `holds`: an observation that still holds. Not `retrieved`: it is pending."""

    sources: frozenset[str]
    holds: bool
    text: str
    retrieved: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """What the context of a question contains. `in_text`: its texts answer it completely."""

    question: Question
    in_text: bool
    lines: Sequence[Line]

    @property
    def sources(self) -> frozenset[str]:
        return frozenset().union(*(line.sources for line in self.lines))

    @property
    def is_shown(self) -> bool:
        return bool(self.question.evidence) and self.question.evidence <= self.sources

    @property
    def is_answered(self) -> bool:
        return self.in_text or self.is_shown

    @property
    def is_stale_first(self) -> bool:
        for line in self.lines:
            if not line.holds and line.sources & self.question.stale:
                return True
            if line.sources & self.question.evidence:
                return False
        return False

    @property
    def is_forbidden(self) -> bool:
        return self.question.kind == "forbidden" and bool(self.question.evidence & self.sources)

    @property
    def tokens(self) -> int:
        return count_tokens("\n".join(line.text for line in self.lines if line.retrieved))


@dataclass(frozen=True, slots=True)
class Measured:
    """`turns`: for each user's message, how many tokens its retrieved lines have. `leaked`: lines that another user said in
    private. `variants`: the same questions in other words, by the name of these. `plain`: with the lines of plain stores.
    """

    shown: Sequence[Shown]
    turns: Sequence[int]
    leaked: int
    variants: Mapping[str, Sequence[Shown]]
    plain: Mapping[str, Sequence[Shown]]

    def __add__(self, other: Measured) -> Measured:
        variants, plain = (
            {name: [*found, *theirs[name]] for name, found in ours.items()}
            for ours, theirs in ((self.variants, other.variants), (self.plain, other.plain))
        )
        turns, leaked = [*self.turns, *other.turns], self.leaked + other.leaked
        return Measured([*self.shown, *other.shown], turns, leaked, variants, plain)


@dataclass(frozen=True, slots=True)
class Filled:
    """A database with the conversations. `sources`: the messages behind each observation; `holding`: those that hold."""

    url: str
    sources: dict[str, frozenset[str]]
    holding: frozenset[str]
    now: datetime


# Filling


async def fill(memory: Memory, model: RecordedModel, clock: Clock, *, formed: bool) -> list[Observation]:
    """Returns the observations. Each conversation is added and formed when it ends; scopes are consolidated when due.

    In the end all are, so that the texts are those that are recorded.
    """
    conversations, observations = model.conversations, list[Observation]()
    for session, said in conversations.by_session.items():
        clock.now = said_at(said[-1]) + timedelta(minutes=10)
        await add(memory, conversations.name, session, said)
        if formed:
            done = await memory.conversations.form(agent_id=conversations.name, conversation_id=session)
            observations += done.observations
            if memory.settings.embedding != "off":
                await memory.work.embed()
            while due := await memory.work.claim("consolidation", agent_id=conversations.name):
                for name, why in (await due()).failed.items():
                    print(f"not consolidated: {name}: {why}")
    if formed:
        await consolidate(memory, conversations)
    return observations


async def add(memory: Memory, agent: str, session: str, said: Sequence[Row]) -> None:
    known = ("id", "role", "content", "created_at", "name", "user_id")
    await memory.add(
        [{name: message[name] for name in known if name in message} for message in said],
        agent_id=agent,
        user_id=_users(said)[0],
        conversation_id=session,
        group_ids=said[0].get("group_ids", ()),
    )


async def consolidate(memory: Memory, conversations: Conversations) -> None:
    """What is pending. A person accepts what is more than one version may supersede by itself."""
    for user in _users(conversations.messages):
        for scope in await memory.scopes.list(agent_id=conversations.name, user_id=user):
            if scope.pending:
                await memory.scopes.consolidate(agent_id=conversations.name, scope_id=scope.ref.id)
    for review in await memory.work.reviews(agent_id=conversations.name, limit=1000):
        await memory.work.decide(review.id, agent_id=conversations.name, accept=True)


def _users(messages: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(message["user_id"] for message in messages if "user_id" in message))


async def recheck(memory: Memory, model: RecordedModel) -> None:
    """All scopes, whole, as a model would that knows what overtakes what. A person accepts what waits for one."""
    conversations, superseded = model.conversations, 0
    users = _users(conversations.messages)
    scopes = [await memory.scopes.list(agent_id=conversations.name, user_id=user) for user in users]
    for scope in sorted({scope.ref.id for ones in scopes for scope in ones}):
        done = await memory.work.recheck(agent_id=conversations.name, scope_id=scope)
        superseded += sum(one.superseded for one in done.rechecked)
    reviews = await memory.work.reviews(agent_id=conversations.name, limit=1000)
    for review in reviews:
        await memory.work.decide(review.id, agent_id=conversations.name, accept=True)
    waited = f"{superseded} superseded, {len(reviews)} more after a review"
    print(f"{conversations.name}: {len(model.compared)} pairs rechecked; {waited}")


# Asking


async def asked(memory: Memory, conversations: Conversations, way: Way, filled: Filled) -> Measured:
    private, found, variants = _private(conversations), list[Shown](), dict[str, list[Shown]]()

    async def ask(question: Question, text: str) -> Shown:
        context = await memory.context(
            agent_id=conversations.name, user_id=question.asker, message=text, retrieve=way.retrieve
        )
        return Shown(question, way.formed and question.in_text, lines_of(context, filled))

    for question in conversations.questions:
        found.append(await ask(question, question.text))
        if question.kind in APART:
            continue
        others = {name: change(question.text) for name, change in VARIANTS.items()} | dict(question.translations)
        for name, other in others.items():
            variants.setdefault(name, []).append(await ask(question, other))
    leaked = sum(bool(line.sources & private(one.question.asker)) for one in found for line in one.lines)
    turns = [await _tokens_of(memory, conversations.name, way, m) for m in by_users(conversations)]
    plain = beside(conversations, found, _plain_line) if way.cues and way.vectors and way.days == 0 else {}
    return Measured(found, turns, leaked, variants, plain)


def _plain_line(row: Row, holds: bool) -> Line:
    return Line(frozenset(row["sources"]), holds, f"- {row['content']}", retrieved=True)


def by_users(conversations: Conversations) -> list[Row]:
    return [message for message in conversations.messages if message["role"] == "user"]


async def _tokens_of(memory: Memory, agent: str, way: Way, message: Row) -> int:
    context = await memory.context(
        agent_id=agent,
        user_id=message["user_id"],
        conversation_id=message["session_id"],
        message=message["content"],
        retrieve=way.retrieve,
    )
    lines = [line.text for part in context.parts if part.element in RETRIEVED for line in part.lines]
    return count_tokens("\n".join(lines))


def lines_of(context: Context, filled: Filled) -> list[Line]:
    return [
        Line(
            filled.sources.get(line.id, frozenset((line.id,))),
            line.id in filled.holding,
            line.text,
            part.element in RETRIEVED,
        )
        for part in context.parts
        for line in part.lines
    ]


def _private(conversations: Conversations) -> Callable[[str], frozenset[str]]:
    """What others than this user said to the assistant alone, or were told by it there."""
    theirs = [said for said in conversations.by_session.values() if "group_ids" not in said[0]]
    return lambda user: frozenset(m["id"] for said in theirs if _users(said) != [user] for m in said)


# Printing

Column = tuple[str, Callable[[Shown], bool]]
COLUMNS: tuple[Column, ...] = (
    ("answered", lambda one: one.is_answered),
    ("shown", lambda one: one.is_shown),
    ("stale first", lambda one: one.is_stale_first),
    ("retrieved", lambda one: any(line.retrieved for line in one.lines)),
)


def report(name: str, measured: Measured) -> str:
    answerable = [one for one in measured.shown if one.question.kind not in APART]
    kinds = dict.fromkeys(one.question.kind for one in measured.shown)
    groups = {"all answerable": answerable} | {
        kind: [one for one in measured.shown if one.question.kind == kind] for kind in kinds
    }
    rows = [_row(kind, ones) for kind, ones in groups.items()]
    for form, ones in measured.variants.items():
        rows.append(_row(form, ones))
        if len(ones) < len(answerable):  # only some are translated
            ids = {one.question.id for one in ones}
            rows.append(_row(" as they stand", [one for one in answerable if one.question.id in ids]))
    for store, ones in measured.plain.items():
        rows.append(_row(store, [one for one in ones if one.question.kind not in APART]))
        rows.append(_row("  task", [one for one in ones if one.question.kind == "task"]))
    forbidden = sum(one.is_forbidden for one in measured.shown)
    wanted = [one for one in measured.shown if one.question.kind not in UNANSWERABLE]
    held = [bool(line.sources & one.question.evidence) for one in wanted for line in one.lines if line.retrieved]
    return "\n".join(
        [
            f"## {name}",
            "".join((f"{'':24}{'n':>9}", *(f"{title:>14}" for title, _ in COLUMNS), f"{'tokens':>8}")),
            *rows,
            f"tokens of lines on {len(measured.turns)} ordinary turns: {median(measured.turns):.0f} in the median,"
            f" {mean(measured.turns):.0f} on average; lines with evidence {mean(held or [False]):.0%} of {len(held)};"
            f" forbidden shown {forbidden}; private shown {measured.leaked}",
        ]
    )


def _row(kind: str, ones: Sequence[Shown]) -> str:
    apart = [one for one in ones if not one.question.in_text]
    cells = [f"{_share(ones, holds)}/{_share(apart, holds)}".rjust(14) for _, holds in COLUMNS]
    return f"{kind:24}{f'{len(ones)}/{len(apart)}':>9}{''.join(cells)}{median(one.tokens for one in ones):>8.0f}"


def _share(ones: Sequence[Shown], holds: Callable[[Shown], bool]) -> str:
    return f"{mean([holds(one) for one in ones]):.2f}" if ones else "-"


# Everything


@asynccontextmanager
async def filled(
    conversations: Conversations, url: str, *, formed: bool, embed: bool, rechecked: bool = False
) -> AsyncIterator[Filled]:
    clock, model = Clock(said_at(conversations.messages[0])), RecordedModel(conversations)
    settings = Settings(**FILLED, message_retention_days=None, graph=True, embedding="local" if embed else "off")
    async with fresh_database(url) as own:
        async with Memory(own, model, settings, clock=clock) as memory:
            observations = await fill(memory, model, clock, formed=formed)
            if formed:
                overtaken = sum(len(row["overtakes"]) for row in conversations.observations)
                print(f"{conversations.name}: of {overtaken} overtaken {len(model.unplaced)} not shown to the model")
            if embed:
                await memory.work.embed()
            if formed and rechecked:
                await recheck(memory, model)
        await analyze(own)
        yield Filled(
            own,
            {one.id: frozenset(one.source.message_ids) for one in observations},
            frozenset(one.id for one in observations if conversations.holds(one.content)),
            clock.now + timedelta(days=1),
        )


async def measure(
    conversations: Conversations, url: str, ways: Sequence[Way], *, rechecked: bool = False
) -> list[Measured]:
    """In the order of the ways."""
    embed, found = any(way.vectors for way in ways), dict[str, Measured]()
    for formed in (True, False):
        chosen = [way for way in ways if way.formed is formed]
        if not chosen:
            continue
        async with filled(conversations, url, formed=formed, embed=embed and formed, rechecked=rechecked) as ready:
            for way in chosen:
                async with Memory(ready.url, settings=way.settings, clock=Clock(ready.now)) as memory:
                    found[way.name] = await asked(memory, conversations, way, ready)
    return [found[way.name] for way in ways]


async def run(folder: Path, ways: Sequence[Way], *, rechecked: bool = False) -> None:
    with server() as url:
        if any(way.vectors for way in ways) and find_spec(ENCODER) is None:
            ways = [way for way in ways if not way.vectors]
            print("without vectors: no encoder\n")
        conversations = recorded(folder)
        for one in conversations:
            tokens = count_tokens("\n".join(message["content"] for message in one.messages))
            print(f"{one.name}: {tokens:,} tokens to show the whole conversation")
        first, *rest = [await measure(one, url, ways, rechecked=rechecked) for one in conversations]
        for n, way in enumerate(ways):
            print(report(way.name, sum((other[n] for other in rest), first[n])), end="\n\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recall.whole_path", description=__doc__)
    parser.add_argument("--data", type=Path, default=INVENTED, help="folder of a pair of conversations")
    parser.add_argument("--ways", help=f"with commas, of: {', '.join(way.name for way in WAYS)}")
    parser.add_argument("--recheck", action="store_true", help="recheck all scopes before anything is asked")
    options = parser.parse_args()
    names = options.ways.split(",") if options.ways else [way.name for way in WAYS]
    asyncio.run(run(options.data, [way for way in WAYS if way.name in names], rechecked=options.recheck))


if __name__ == "__main__":
    main()
