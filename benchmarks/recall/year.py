"""`python -m benchmarks.recall.year`: what the lifecycle does to the invented conversations, stretched over a year.

Five months become a year: the days between sessions are multiplied; within a session, and between what is said and the day it
is about, nothing changes. Dates in texts stay as they are. Observations carry `formed/fields.json`: category, how sure, and
until when, written by hand as an honest answer would have them.

Each user's message asks for a context, as an agent would, and each question is asked when its answer has been said for some
time (`ASKED_AFTER` days), by its asker: these are the uses. The asker then says what was of use (evidence) and what was not
(overtaken), and confirms what answers a question about something that has changed. Once a week maintenance runs as a worker's
would, by a clock that shows the simulated day. The same for each part alone, for all, and for none.

At the end of the year every question is asked once more. Printed: answered, and of what the texts don't answer; stale lines
(overtaken), and over (a day has passed, and the line doesn't say so); questions with a stale line above all evidence;
tokens of lines a question, and an ordinary turn of the year; rows that a search may rank; what is archived and evicted. Then
the stages week by week. `--svg FILE` draws those of all parts together.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args

from pydantic import BaseModel
from sqlalchemy import text

from benchmarks.recall.metrics import mean
from benchmarks.recall.recorded import INVENTED, Conversations, Question, RecordedModel, Row, recorded, said_at
from benchmarks.recall.whole_path import APART, FILLED, RETRIEVED, Clock, Filled, Shown, add, consolidate, lines_of
from benchmarks.server import analyze, fresh_database, server
from memory_sql.cli.lifecycle import COLOURS
from memory_sql.config import Settings
from memory_sql.db.principals import service
from memory_sql.domain.observations import Stage
from memory_sql.domain.results import LifecycleWeek
from memory_sql.formation.task import ExtractionTask
from memory_sql.languages.text import count_tokens
from memory_sql.llm import Answer, Request
from memory_sql.llm.answers import read
from memory_sql.memory import Memory

T = TypeVar("T", bound=BaseModel | str)
YEAR, WEEK, WEEKS = timedelta(days=365), timedelta(days=7), 52
LAST = 350  # the day of the last session
ASKED_AFTER = (7, 35, 140)  # days
OVER = "was planned until"  # by which a line says that its day has passed
ALL: dict[str, Any] = {"deduplicate": "scope", "lifecycle": True, "stale_hidden": True, "archival": True}
OFF: dict[str, Any] = {**FILLED, "embedding": "off", "deduplicate": "off", "message_retention_days": 30}


@dataclass(frozen=True, slots=True)
class Part:
    """`until`: observations say until when they hold, by which they expire. `expiry, kept`: what is over is never evicted."""

    name: str
    until: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


PARTS = (
    Part("nothing"),
    Part("deduplicate", settings={"deduplicate": "scope"}),
    Part("expiry", until=True),
    Part("expiry, 90 days", True, {"commitment_days": 90}),
    Part("lifecycle", settings={"lifecycle": True}),
    Part("stale_hidden", settings={"lifecycle": True, "stale_hidden": True}),
    Part("archival", settings={"archival": True}),
    Part("all", True, {**ALL, "commitment_days": 90}),
)


# A year


@dataclass(frozen=True, slots=True)
class Said:
    """Of an observation: its category, how sure it is, and until when it holds."""

    category: str
    sure: str
    until: date | None


def stretched(conversations: Conversations, factor: float) -> Conversations:
    """The same with the days between sessions multiplied."""
    first = min(map(said_at, conversations.messages)).date()
    began = {session: said_at(said[0]).date() for session, said in conversations.by_session.items()}
    moved = {
        session: timedelta(days=round((day - first).days * factor) - (day - first).days)
        for session, day in began.items()
    }

    def later(row: Row, name: str) -> Row:
        at = datetime.fromisoformat(row[name]) + moved[row["session_id"]]
        return {**row, name: at.isoformat(), "moved": moved[row["session_id"]]}

    return replace(
        conversations,
        messages=[later(row, "created_at") for row in conversations.messages],
        observations=[later(row, "observed_at") for row in conversations.observations],
    )


def fields_of(conversations: Conversations, folder: Path) -> Sequence[Said]:
    """In the order of the observations; a day is as far from what was said as it was before the stretching."""
    found = []
    told = json.loads((folder / "formed" / "fields.json").read_text("utf-8"))[conversations.name]
    for row, words in zip(conversations.observations, told, strict=True):
        category, sure, *until = words.split()
        found.append(Said(category, sure, date.fromisoformat(until[0]) + row["moved"] if until else None))
    return found


@dataclass(slots=True)
class SureModel(RecordedModel):
    """Says also what kind of thing each observation is, how sure it is, and (`until`) when it is over."""

    fields: Sequence[Said] = ()
    until: bool = False

    async def generate(self, request: Request[T]) -> Answer[T]:
        answer = await RecordedModel.generate(self, request)
        if not isinstance(request.material, ExtractionTask):
            return answer
        lists = json.loads(answer.raw)
        for one in (one for found in lists.values() for one in found):
            said = self.fields[self.conversations.numbers[one["content"]]]
            one |= {"category": said.category, "sure": said.sure}
            if self.until and said.until is not None:
                one["until"] = said.until.isoformat()
        raw = json.dumps(lists, ensure_ascii=False)
        return replace(answer, value=read(raw, request.output), raw=raw)


# Living through it


@dataclass(slots=True)
class Lived:
    """`turns`: tokens of the retrieved lines of each ordinary turn. `weeks`: the stages at the end of each."""

    shown: list[Shown] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    weeks: list[LifecycleWeek] = field(default_factory=list)
    over: int = 0
    ranked: int = 0
    archived: int = 0
    evicted: int = 0


class Event(NamedTuple):
    """A session that ends, a question that is asked, or (neither) maintenance."""

    at: datetime
    session: str | None = None
    question: Question | None = None


def begin(conversations: Conversations) -> datetime:
    return min(map(said_at, conversations.messages))


def events(conversations: Conversations) -> list[Event]:
    """In order. What happens at the same time: sessions, questions, maintenance."""
    heard = {message["id"]: said_at(message) for message in conversations.messages}
    first = begin(conversations)
    found = [
        Event(said_at(said[-1]) + timedelta(minutes=10), session=session)
        for session, said in conversations.by_session.items()
    ]
    for question in conversations.questions:
        known = [heard[id] for id in question.evidence | question.stale]
        asked = [max(known) + timedelta(days=days) for days in ASKED_AFTER] if known else []
        found += [Event(at, question=question) for at in asked if at < first + YEAR]
    found += [Event(first + n * WEEK) for n in range(WEEKS + 1)]
    return sorted(found, key=lambda event: event.at)


def weeks_of(found: Iterable[Event]) -> list[list[Event]]:
    """Each begins with maintenance, except what comes before the first."""
    weeks: list[list[Event]] = [[]]
    for event in found:
        if event.session is None and event.question is None:
            weeks.append([])
        weeks[-1].append(event)
    return weeks


@dataclass(slots=True)
class Life:
    """One agent's year with one set of parts on. `sources`: the messages behind each observation; `holding`: what holds."""

    conversations: Conversations
    model: SureModel
    clock: Clock
    sources: dict[str, frozenset[str]] = field(default_factory=dict)
    holding: set[str] = field(default_factory=set)
    lived: Lived = field(default_factory=Lived)

    @property
    def agent(self) -> str:
        return self.conversations.name

    async def goes_on(self, memory: Memory, event: Event) -> None:
        self.clock.now = event.at
        if event.session is not None:
            await self.session(memory, event.session)
        elif event.question is not None:
            await self.question(memory, event.question)
        else:
            await memory.work.maintain()
            await self.consolidate(memory)
            self.lived.weeks.append(await stages_now(memory, self.agent, event.at))

    async def session(self, memory: Memory, session: str) -> None:
        said = self.conversations.by_session[session]
        await add(memory, self.agent, session, said)
        for message in (message for message in said if message["role"] == "user"):
            context = await memory.context(
                agent_id=self.agent,
                user_id=message["user_id"],
                conversation_id=session,
                message=message["content"],
            )
            lines = [line.text for part in context.parts if part.element in RETRIEVED for line in part.lines]
            self.lived.turns.append(count_tokens("\n".join(lines)))
        done = await memory.conversations.form(agent_id=self.agent, conversation_id=session)
        for one in done.observations:
            self.sources[one.id] = frozenset(one.source.message_ids)
            if self.conversations.holds(one.content):
                self.holding.add(one.id)
        await self.consolidate(memory)

    async def consolidate(self, memory: Memory) -> None:
        while due := await memory.work.claim("consolidation", agent_id=self.agent):
            await due()

    async def ask(self, memory: Memory, question: Question) -> Shown:
        context = await memory.context(agent_id=self.agent, user_id=question.asker, message=question.text)
        filled = Filled("", self.sources, frozenset(self.holding), self.clock.now)
        return Shown(question, question.in_text, lines_of(context, filled))

    async def question(self, memory: Memory, question: Question) -> None:
        """Its asker says what was of use of the lines that a search has found, and what wasn't."""
        whose: dict[str, Any] = {"agent_id": self.agent, "user_id": question.asker}
        context = await memory.context(**whose, message=question.text)
        found = [line.id for part in context.parts if part.element in RETRIEVED for line in part.lines]
        for id in (id for id in found if id in self.sources):
            if id in self.holding and self.sources[id] & question.evidence:
                await memory.observations.feedback(id, 1, **whose)
                if question.kind == "update" and (await memory.observations.get(id, **whose)).status == "active":
                    await memory.observations.confirm(id, **whose)  # nobody confirms what is over
            elif id not in self.holding and self.sources[id] & question.stale:
                await memory.observations.feedback(id, -1, **whose)


STAGES_NOW = text(
    "SELECT CASE WHEN o.standing = 'archived' THEN 'archived' ELSE coalesce(t.stage, 'candidate') END AS stage, count(*) AS n"
    " FROM memory.observations o JOIN memory.agents a USING (agent_key)"
    " LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq)"
    " WHERE a.agent_id = :agent AND o.standing IN ('active', 'archived') GROUP BY 1"
)
STANDINGS = text(
    "SELECT o.standing, count(*) AS n, count(*) FILTER (WHERE memory.is_faded(t.status, t.stage, t.policy)) AS faded"
    " FROM memory.observations o JOIN memory.agents a USING (agent_key)"
    " LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq) WHERE a.agent_id = :agent GROUP BY 1"
)


async def stages_now(memory: Memory, agent: str, now: datetime) -> LifecycleWeek:
    async with memory.database.transaction(principal=service(agent)) as unit:
        found = (await unit.execute(STAGES_NOW, {"agent": agent})).all()
    none: dict[Stage, int] = dict.fromkeys(get_args(Stage), 0)
    return LifecycleWeek(at=now, stages=none | {row.stage: row.n for row in found})


async def live(conversations: Conversations, folder: Path, url: str, part: Part) -> Lived:
    first = begin(conversations)
    clock = Clock(first)
    model = SureModel(conversations, fields=fields_of(conversations, folder), until=part.until)
    settings = Settings(**{**OFF, **part.settings})
    life = Life(conversations, model, clock)
    async with fresh_database(url) as own:
        for week in weeks_of(events(conversations)):
            async with Memory(own, model, settings, clock=clock) as memory:  # at its end the counts are written
                for event in week:
                    await life.goes_on(memory, event)
        await analyze(own)
        clock.now = first + YEAR
        async with Memory(own, model, settings, clock=clock) as memory:
            await consolidate(memory, conversations)
            await _end(memory, life, settings)
    return life.lived


async def _end(memory: Memory, life: Life, settings: Settings) -> None:
    lived, conversations = life.lived, life.conversations
    fields = life.model.fields
    for question in conversations.questions:
        lived.shown.append(await life.ask(memory, question))
    until = {row["content"]: said.until for row, said in zip(conversations.observations, fields, strict=True)}
    today = life.clock.now.date()
    for one in (one for one in lived.shown if one.question.kind not in APART):
        for line in one.lines:
            day = next((day for content, day in until.items() if content in line.text), None)
            lived.over += day is not None and day < today and OVER not in line.text
    async with memory.database.transaction(principal=service(life.agent)) as unit:
        standings = {row.standing: row for row in await unit.execute(STANDINGS, {"agent": life.agent})}
    counts = {name: row.n for name, row in standings.items()}
    lived.archived, lived.evicted = counts.get("archived", 0), counts.get("evicted", 0)
    hidden = sum(row.faded for name, row in standings.items() if name in ("active", "archived"))
    lived.ranked = counts.get("active", 0) + lived.archived - (hidden if settings.stale_hidden else 0)


# Printing


def row(name: str, lives: Sequence[Lived]) -> str:
    every = [one for lived in lives for one in lived.shown]
    asked = [one for one in every if one.question.kind not in APART]
    apart = [one for one in asked if not one.question.in_text]
    cells = [
        f"{sum(one.is_answered for one in asked)}/{len(asked)}",
        f"{sum(one.is_shown for one in apart)}/{len(apart)}",
        sum(not line.holds for one in asked for line in one.lines),
        sum(lived.over for lived in lives),
        sum(one.is_stale_first for one in asked),
        f"{mean([one.tokens for one in asked]):.0f}",
        f"{mean([tokens for lived in lives for tokens in lived.turns]):.0f}",
        sum(lived.ranked for lived in lives),
        sum(lived.archived for lived in lives),
        sum(lived.evicted for lived in lives),
    ]
    return f"{name:<14}" + "".join(f"{cell!s:>11}" for cell in cells)


TITLES = ("answered", "shown", "stale", "over", "stale 1st", "tokens", "per turn", "ranked", "archived", "evicted")


def together(lives: Sequence[Lived]) -> list[LifecycleWeek]:
    """The weeks of several agents as of one, dated by the first."""
    return [
        LifecycleWeek(
            at=weeks[0].at, stages={name: sum(week.stages[name] for week in weeks) for name in get_args(Stage)}
        )
        for weeks in zip(*(lived.weeks for lived in lives), strict=True)
    ]


def weekly(weeks: Sequence[LifecycleWeek]) -> str:
    stages: tuple[Stage, ...] = get_args(Stage)
    lines = [f"{'week':>4}" + "".join(f"{stage:>11}" for stage in stages)]
    lines += [f"{n:>4}" + "".join(f"{week.stages[stage]:>11}" for stage in stages) for n, week in enumerate(weeks)]
    return "\n".join(lines)


def picture(weeks: Sequence[LifecycleWeek]) -> str:
    """An SVG of the stages as areas, what is most alive at the bottom."""
    most, areas = max(sum(week.stages.values()) for week in weeks), list[str]()
    below = [0] * len(weeks)
    for place, (stage, colour) in enumerate(COLOURS.items()):
        above = [low + week.stages[stage] for low, week in zip(below, weeks, strict=True)]
        edge = [*enumerate(above), *reversed([*enumerate(below)])]
        points = " ".join(f"{50 + 11 * n},{210 - round(200 * count / most)}" for n, count in edge)
        y = 190 - 20 * place
        areas.append(f'<polygon points="{points}" fill="{colour}"/>')
        areas.append(
            f'<rect x="640" y="{y}" width="12" height="12" fill="{colour}"/><text x="660" y="{y + 11}">{stage}</text>'
        )
        below = above
    scale = f'<text x="42" y="20" text-anchor="end">{most}</text><text x="42" y="214" text-anchor="end">0</text>'
    ticks = "".join(f'<text x="{50 + 11 * n}" y="228" text-anchor="middle">{n}</text>' for n in range(0, 53, 13))
    size = 'width="740" height="236" font-family="sans-serif" font-size="13"'
    inside = "\n".join((*areas, scale, ticks))
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n{inside}\n</svg>\n'


async def run(folder: Path, parts: Sequence[Part]) -> Mapping[str, Sequence[LifecycleWeek]]:
    """The weeks of each part, by its name."""
    found = recorded(folder)
    days = max((said_at(one.messages[-1]) - begin(one)).days for one in found)
    conversations = [stretched(one, LAST / days) for one in found]
    weeks: dict[str, list[LifecycleWeek]] = {}
    with server() as url:
        print(f"{'':14}" + "".join(f"{title:>11}" for title in TITLES))
        for part in parts:
            lives = [await live(one, folder, url, part) for one in conversations]
            print(row(part.name, lives), flush=True)
            weeks[part.name] = together(lives)
    for part in parts:
        if part.settings.get("lifecycle"):
            print(f"\n## {part.name}: stages week by week\n{weekly(weeks[part.name])}")
    return weeks


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recall.year", description=__doc__)
    parser.add_argument("--data", type=Path, default=INVENTED, help="folder of a pair of conversations")
    parser.add_argument("--parts", help=f"with semicolons, of: {'; '.join(part.name for part in PARTS)}")
    parser.add_argument("--svg", type=Path, help="where to draw the stages of `all`")
    options = parser.parse_args()
    names = options.parts.split(";") if options.parts else [part.name for part in PARTS]
    weeks = asyncio.run(run(options.data, [part for part in PARTS if part.name in names]))
    if options.svg is not None:
        options.svg.write_text(picture(weeks["all"]), "utf-8")


if __name__ == "__main__":
    main()
