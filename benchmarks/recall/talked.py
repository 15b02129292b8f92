"""`python -m benchmarks.recall.talked`: ten questions about what was talked about, with `episodes` off and on.

The invented conversations are added, formed and consolidated as in `benchmarks.recall.whole_path`, with what each observation
is about from `formed/topics.json`, written by hand as an honest answer would have it. Between two sessions the questions of
`talked_about.jsonl` are asked that are of that time, in a new conversation. One is answered if the lines that come from the
session in question name all subjects of its answer; a line comes from a session if its observation, message or episode does.

Printed: which are answered; how many tokens the lines of episodes have, for each question, and for each first message of a
session; what formations cost in tokens (prompt, schema, answer); how many episodes there are, why they ended, and how many go
on. Then the questions of `whole_path`, by kind.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median
from typing import TypeVar

from pydantic import BaseModel
from sqlalchemy import text

from benchmarks.recall.formed import lines
from benchmarks.recall.metrics import mean
from benchmarks.recall.recorded import INVENTED, Conversations, RecordedModel, Row, recorded, said_at
from benchmarks.recall.whole_path import FILLED, Clock, Filled, Measured, Way, add, asked, consolidate, report
from benchmarks.server import analyze, fresh_database, server
from memory_sql.config import Settings
from memory_sql.db.principals import service
from memory_sql.domain.observations import Observation
from memory_sql.domain.reading import Context
from memory_sql.formation.task import ExtractionTask
from memory_sql.languages.text import count_tokens
from memory_sql.llm import Answer, Request
from memory_sql.llm.answers import strict_schema
from memory_sql.memory import Memory

T = TypeVar("T", bound=BaseModel | str)
WAY = Way("cues and messages", cues=True, days=None)
HOW = """
    SELECT coalesce(seal_reason, 'open'), count(*), count(*) FILTER (WHERE trace_id < episode_id) FROM memory.episodes
    GROUP BY 1
"""


@dataclass(slots=True)
class Talking(RecordedModel):
    """Says what each observation is about, where it is asked. `costs`: tokens of each formation."""

    topics: Sequence[str] = ()
    costs: list[int] = field(default_factory=list)

    async def generate(self, request: Request[T]) -> Answer[T]:
        answer: Answer[T] = await RecordedModel.generate(self, request)
        if isinstance(request.material, ExtractionTask):
            schema = json.dumps(strict_schema(request.output), ensure_ascii=False, separators=(",", ":"))  # type: ignore[arg-type]
            self.costs.append(sum(map(count_tokens, (request.instructions, request.prompt, schema, answer.raw))))
        return answer

    def _formed(self, asked: ExtractionTask) -> Row:
        found = RecordedModel._formed(self, asked)
        if asked.topics:
            for observations in found.values():
                for one in observations:
                    one["topics"] = self.topics[self.conversations.numbers[one["content"]]].split(", ")
        return found


@dataclass(frozen=True, slots=True)
class Told:
    """`tokens`: of the lines of episodes, for each first message; `asked`: for each question; `seconds`: of formations."""

    answered: dict[str, bool]
    tokens: Sequence[int]
    asked: Sequence[int]
    costs: Sequence[int]
    seconds: Sequence[float]
    how: Counter[str]
    shown: Measured


def settings_of(episodes: bool) -> Settings:
    return Settings(**FILLED, message_retention_days=None, embedding="off", episodes=episodes)


async def measured(conversations: Conversations, url: str, *, episodes: bool) -> Told:
    topics = json.loads((INVENTED / "formed" / "topics.json").read_text("utf-8"))[conversations.name]
    model, clock = Talking(conversations, topics=topics), Clock(said_at(conversations.messages[0]))
    questions = [row for row in lines(INVENTED / "talked_about.jsonl") if row["file"] == conversations.name]
    answered, tokens, of_questions, seconds = dict[str, bool](), list[int](), list[int](), list[float]()
    observations, began = list[Observation](), list(conversations.by_session.values())
    async with fresh_database(url) as own:
        async with Memory(own, model, settings_of(episodes), clock=clock) as memory:
            for n, (session, said) in enumerate(conversations.by_session.items()):
                clock.now = said_at(said[0])
                first = next(one for one in said if "user_id" in one)
                tokens.append(
                    _tokens(await _context(memory, conversations, first["user_id"], first["content"], session))
                )
                clock.now = said_at(said[-1]) + timedelta(minutes=10)
                await add(memory, conversations.name, session, said)
                start = time.perf_counter()
                done = await memory.conversations.form(agent_id=conversations.name, conversation_id=session)
                seconds.append(time.perf_counter() - start)
                observations += done.observations
                while due := await memory.work.claim("consolidation", agent_id=conversations.name):
                    await due()
                following = (
                    said_at(began[n + 1][0]) if n + 1 < len(began) else datetime.max.replace(tzinfo=clock.now.tzinfo)
                )
                for question in questions:
                    at = datetime.fromisoformat(question["asked_at"])
                    if clock.now <= at < following:
                        clock.now = at
                        await memory.work.maintain()
                        sources = {one.id: one.source.message_ids for one in observations}
                        shown = await _context(
                            memory, conversations, question["asker"], question["question"], "a new one"
                        )
                        of_questions.append(_tokens(shown))
                        answered[question["id"]] = await _answers(memory, conversations, question, shown, sources)
            await consolidate(memory, conversations)
            await memory.work.maintain()
            async with memory.database.transaction(principal=service(None)) as unit:
                how = Counter[str]()
                for reason, count, on in (await unit.execute(text(HOW))).all():
                    how += Counter({reason: count, "go on": on})
        await analyze(own)
        filled = Filled(
            own,
            {one.id: frozenset(one.source.message_ids) for one in observations},
            frozenset(one.id for one in observations if conversations.holds(one.content)),
            clock.now + timedelta(days=1),
        )
        async with Memory(own, settings=settings_of(episodes), clock=Clock(filled.now)) as memory:
            return Told(
                answered,
                tokens,
                of_questions,
                model.costs,
                seconds,
                how,
                await asked(memory, conversations, WAY, filled),
            )


async def _context(memory: Memory, conversations: Conversations, user: str, message: str, where: str) -> Context:
    return await memory.context(agent_id=conversations.name, user_id=user, conversation_id=where, message=message)


def _tokens(shown: Context) -> int:
    return sum(part.tokens for part in shown.parts if part.element == "RecentEpisodes")


async def _answers(
    memory: Memory, conversations: Conversations, question: Row, shown: Context, sources: Mapping[str, Sequence[str]]
) -> bool:
    said = {message["id"]: message["session_id"] for message in conversations.messages}
    episodes = await memory.episodes.list(agent_id=conversations.name, user_id=question["asker"])
    of_episode = {one.id: one.conversation_id for one in episodes}
    told = [
        line.text.casefold()
        for part in shown.parts
        for line in part.lines
        if question["session"]
        in {line.conversation_id, of_episode.get(line.id), *(said[one] for one in sources.get(line.id, ()))}
    ]
    return all(any(word in one for word in words for one in told) for words in question["answer"])


def told_of(name: str, found: Sequence[Told]) -> str:
    answered = {key: value for one in found for key, value in one.answered.items()}
    missed = ", ".join(key for key, holds in answered.items() if not holds) or "-"
    tokens, of_questions, costs = (
        [n for one in found for n in getattr(one, part)] for part in ("tokens", "asked", "costs")
    )
    seconds = [n for one in found for n in one.seconds]
    how: Counter[str] = sum((one.how for one in found), Counter())
    first, *rest = [one.shown for one in found]
    return "\n".join(
        [
            f"## episodes {name}",
            f"answered {sum(answered.values())} of {len(answered)}; not: {missed}",
            f"tokens of the lines of episodes: at {len(of_questions)} questions {mean(of_questions):.0f} on average,"
            f" at {len(tokens)} first messages {mean(tokens):.0f}, {max(tokens)} at most",
            f"formations: {len(costs)}, {sum(costs):,} tokens, {median(seconds) * 1000:.0f} ms in the median",
            f"episodes: {', '.join(f'{count} {what}' for what, count in sorted(how.items())) or '-'}",
            report(WAY.name, sum(rest, first)),
        ]
    )


async def run() -> None:
    with server() as url:
        for episodes in (False, True):
            found = [await measured(one, url, episodes=episodes) for one in recorded()]
            print(told_of("on" if episodes else "off", found), end="\n\n", flush=True)


def main() -> None:
    argparse.ArgumentParser(prog="python -m benchmarks.recall.talked", description=__doc__).parse_args()
    asyncio.run(run())


if __name__ == "__main__":
    main()
