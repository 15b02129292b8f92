"""What it costs to ask what kind of memory an observation is: tokens of a formation without and with the label.

The invented conversations and, where they are beside the checkout, those played with a team are formed with the recorded
answers, as they are for a host. Each call is counted twice, with its schema and its answer: as it is sent with
`classification` = rules, and with model. Which label an observation has is guessed from its words: all are of about the same
length, and what is counted is how much a label adds. `private`, which a real answer has as well, isn't recorded: without it
the share of the label is a little larger.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel

from benchmarks.extraction_modes import play
from benchmarks.played import FOLDER, PlayedError, Written, conversations_of, written
from benchmarks.recall.recorded import Conversations, RecordedModel, Row, recorded
from benchmarks.server import fresh_database, server
from memory_sql.config import Settings
from memory_sql.formation.task import ExtractionTask
from memory_sql.languages.text import count_tokens
from memory_sql.llm import Answer, LanguageModel, Request
from memory_sql.llm.answers import strict_schema
from memory_sql.memory import Memory

T = TypeVar("T", bound=BaseModel | str)
SETTINGS = Settings(llm="offline")
AGENT: dict[str, Any] = {"agent_id": "ada"}
DAY = re.compile(r"\d{4}-\d\d-\d\d")
BY_WORDS = {
    "preference": re.compile(r"\b(prefer|want|like|hate|love|favou?rite|vegetarian)"),
    "decision": re.compile(r"\b(decided|chose|agreed|moved)\b"),
    "relationship": re.compile(r"\b(sister|brother|mother|father|wife|husband|friend|partner|daughter|son)\b"),
    "principle": re.compile(r"\b(can't|never|always|must|may)\b"),
}


class Cost(NamedTuple):
    """In tokens, as `count_tokens` estimates them."""

    prompt: int
    schema: int
    answer: int


@dataclass(frozen=True, slots=True)
class Call:
    turns: int
    observations: int
    without: Cost
    labelled: Cost

    @property
    def more(self) -> float:
        return sum(self.labelled) / sum(self.without) - 1


def label_of(content: str, today: date) -> str:
    if later := [day for day in DAY.findall(content) if day > today.isoformat()]:
        return f"said commitment until {later[-1]}"
    return f"said {next((name for name, words in BY_WORDS.items() if words.search(content)), 'fact')}"


@dataclass(slots=True)
class Counting:
    """Wraps a model and counts each extraction. It returns what the model does."""

    model: LanguageModel
    calls: list[Call] = field(default_factory=list)

    async def generate(self, request: Request[T]) -> Answer[T]:
        answer = await self.model.generate(request)
        if isinstance(task := request.material, ExtractionTask):
            found: Mapping[str, Sequence[Row]] = json.loads(answer.raw)
            today = task.now.date()
            labelled = {
                scope: [{**item, "label": label_of(item["content"], today)} for item in items]
                for scope, items in found.items()
            }
            count = sum(map(len, found.values()))
            without = _cost(replace(task, categories=()).request(request.model), found)
            self.calls.append(Call(len(task.turns), count, without, _cost(request, labelled)))
        return answer


def _cost(request: Request[Any], answer: object) -> Cost:
    schema = json.dumps(strict_schema(request.output), separators=(",", ":"))
    sent = count_tokens(request.instructions) + count_tokens(request.prompt)
    return Cost(sent, count_tokens(schema), count_tokens(json.dumps(answer, ensure_ascii=False)))


async def form(url: str, conversations: Conversations) -> Sequence[Call]:
    """One formation a session, in order."""
    model = Counting(RecordedModel(conversations))
    async with Memory(url, model, SETTINGS) as memory:
        for group in sorted({group for said in conversations.messages for group in said.get("group_ids", ())}):
            await memory.groups.create(group, **AGENT)
            for user in sorted({said["user_id"] for said in conversations.messages if "user_id" in said}):
                await memory.groups.add_member(group, user_id=user, **AGENT)
        for session, said in conversations.by_session.items():
            here = {**AGENT, "conversation_id": session}
            user = next(one["user_id"] for one in said if "user_id" in one)
            messages = [{k: v for k, v in one.items() if k not in ("session_id", "group_ids")} for one in said]
            await memory.add(messages, **here, user_id=user, group_ids=said[0].get("group_ids", ()))
            await memory.conversations.form(**here)
    return model.calls


async def measured() -> AsyncIterator[tuple[str, Sequence[Call]]]:
    """By the name of what was formed."""
    with server() as there:
        for conversations in recorded():
            async with fresh_database(there) as url:
                yield conversations.name, await form(url, conversations)
        try:
            played = conversations_of(FOLDER)
        except PlayedError as error:
            print(f"skipped: {error}")
            return
        async with fresh_database(there) as url:
            model = Counting(Written(played, written()))
            await play(url, model, played, (), SETTINGS)
            yield "played", model.calls


def report(name: str, calls: Sequence[Call]) -> str:
    """A line for each call, and one for all."""
    lines = [f"| {name} | turns | observations | prompt | schema | answer | more |"]
    lines += [
        f"| {n} | {call.turns} | {call.observations} | {_both(call.without.prompt, call.labelled.prompt)}"
        f" | {_both(call.without.schema, call.labelled.schema)} | {_both(call.without.answer, call.labelled.answer)}"
        f" | {call.more:+.1%} |"
        for n, call in enumerate(calls, 1)
    ]
    without, labelled = (sum(map(sum, costs)) for costs in zip(*((c.without, c.labelled) for c in calls), strict=True))
    return "\n".join((*lines, f"all: {_both(without, labelled)}, {labelled / without - 1:+.1%}", ""))


def _both(without: int, labelled: int) -> str:
    return f"{without:,} → {labelled:,}"


async def main() -> None:
    async for name, calls in measured():
        print(report(name, calls))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
