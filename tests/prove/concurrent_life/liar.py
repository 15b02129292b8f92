"""A model behind HTTP that is slow, fails and lies. Apart from its lies it repeats each turn word for word.

Its lies are those that rules can detect: names and numbers that nobody offered, repetitions, another user's words in
somebody's list, an older observation that contradicts a newer one, a text that has lost most of its words, a claim in the
words of another one. Whether it lies is random.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Collection, Sequence
from typing import Any

from aiohttp import web

from tests.decoys import verdict
from tests.fakes import by_scope
from tests.loopback import Received, Reply, ShownTurn, good, numbered, turns
from tests.prove.models import NO_ANSWER, NO_JSON, NO_USE, claims, text_of, wants_decisions, wants_facts

Item = tuple[str, str, list[int]]
FOR_GROUP = "We all know"


def liar(chance: random.Random) -> Reply:
    async def respond(request: web.Request, received: Received) -> web.StreamResponse:
        await asyncio.sleep(chance.uniform(0, 0.05))
        match chance.randrange(10):
            case 0:
                reply = chance.choice(NO_ANSWER)
            case 1 | 2 | 3:  # some of it is given up
                reply = chance.choice([*NO_USE, NO_JSON] if wants_facts(received) else NO_USE)
            case _:
                reply = good(_answer(received, chance))
        return await reply.respond(request, received)

    return Reply(respond)


def _answer(received: Received, chance: random.Random) -> str:
    lies = chance.randrange(3) == 0
    if wants_decisions(received):
        return _decisions(claims(received.prompt), chance if lies else None)
    if wants_facts(received):
        assert received.schema is not None
        return _extraction(turns(received.prompt), received.schema["properties"], chance if lies else None)
    current, facts = "\n".join(numbered(received.prompt, "s")), numbered(received.prompt, "n")
    return _text(current, facts, chance if lies else None)


def _extraction(shown: Sequence[ShownTurn], offered: Collection[str], lie: random.Random | None) -> str:
    items = [(turn.text, place, [turn.n]) for turn in shown if turn.is_persons for place in _places(turn, offered)]
    if lie is not None and items:
        text, place, sources = lie.choice(items)
        nobodys = (
            [99] if len(items) == 1 else [*sources, 99]
        )  # without any it is all who spoke, and goes with each of them
        items += lie.choice((
            [(text, place, sources)],
            [(text, lie.choice(sorted(offered)), sources)],
            [("An invention.", "group_99", [1]), (f"Another one than {_name(text)}.", place, nobodys)],
            [("", place, sources), ("word " * 60, place, sources)],
        ))  # fmt: skip
    return by_scope(offered, *items)


def _name(text: str) -> str:
    """In letters, and of this text alone: the same made up twice would lead a forgetting from one to the other."""
    return "".join(chr(ord("a") + int(digit)) for digit in text if digit.isdigit())


def _places(turn: ShownTurn, offered: Collection[str]) -> list[str]:
    """Whose it is, or a scope beside theirs, and what the conversation remembers of itself, in each of its lanes."""
    beside = sorted(alias for alias in offered if alias.startswith("named_"))
    digits = sum(int(digit) for digit in turn.text if digit.isdigit())
    own = _place(turn, offered)
    chosen = beside[digits % len(beside)] if beside and digits % 3 == 0 else own
    wanted = [alias for alias in (chosen, "conversation", "conversation_latest") if alias in offered]
    return wanted or [own]


def _place(turn: ShownTurn, offered: Collection[str]) -> str:
    if turn.text.startswith(FOR_GROUP) and "group_1" in offered:
        return "group_1"
    return "individual" if "individual" in offered else f"individual_{turn.handle}"


def _text(current: str | None, facts: Sequence[str], lie: random.Random | None) -> str:
    text, contradictions = text_of(current, facts), []
    if lie is not None:
        one = {"newer": 1, "older": len(facts), "was": facts[-1], "now": facts[0]} if facts else {}
        match lie.randrange(4):
            case 0:
                contradictions = [one | {"newer": 99, "older": 98}]
            case 1 if facts:
                contradictions = [one]
            case 2 if len(facts) > 1:
                contradictions = [one | {"newer": len(facts), "older": 1, "was": facts[0], "now": facts[-1]}]
            case 3 if current and len(current.split()) > 60:
                text = " ".join(current.split()[:3])
    return json.dumps({"text": text, "contradictions": contradictions})


def _decisions(shown: Sequence[dict[str, Any]], lie: random.Random | None) -> str:
    made = [
        {"n": claim["n"], "to": to, **verdict(claim["text"]), "text": claim["text"]}
        for claim in shown
        for to in claim["to"]
    ]
    if lie is not None and made:
        one = lie.choice(made)
        match lie.randrange(3):
            case 0:
                made.append(one | {"to": "group_99"})
            case 1 | 2 | 3:  # some of it is given up
                made.append(one | {"n": 99})
            case 2:
                one["text"] = lie.choice(shown)["text"]
    return json.dumps({"decisions": made})
