"""A model behind HTTP that is slow, fails and lies. Apart from its lies it repeats each turn word for word.

Its lies are those that rules can detect: names and numbers that nobody offered, repetitions, another user's words in
somebody's list, an older observation that contradicts a newer one, a text that has lost most of its words, a claim in the
words of another one. Whether it lies is random; which lies it has told it writes down, a line each.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web

from tests.decoys import verdict
from tests.fakes import by_scope
from tests.loopback import Received, Reply, ShownTurn, good, numbered, turns
from tests.prove.models import NO_ANSWER, NO_FACTS, NO_USE, claims, text_of, wants_decisions, wants_facts

T = TypeVar("T")
Item = tuple[str, str, list[int]]
FOR_GROUP = "We all know"
Lie = Callable[[random.Random, T, Any], T | None]
"""What it says instead of what is true, given what it was shown; None: there is nothing to lie about."""


def liar(told: Path, chance: random.Random) -> Reply:
    async def respond(request: web.Request, received: Received) -> web.StreamResponse:
        await asyncio.sleep(chance.uniform(0, 0.05))
        match chance.randrange(10):
            case 0:
                reply = chance.choice(NO_ANSWER)
            case 1 | 2 | 3:  # some of it is given up
                reply = chance.choice(NO_FACTS if wants_facts(received) else NO_USE)
            case _:
                name, said = _answer(received, chance, lies=chance.randrange(3) == 0)
                if name:
                    await asyncio.to_thread(_note, told, name)
                reply = good(said)
        return await reply.respond(request, received)

    return Reply(respond)


def _note(told: Path, name: str) -> None:
    with told.open("a") as file:
        file.write(f"{name}\n")


def _answer(received: Received, chance: random.Random, *, lies: bool) -> tuple[str | None, str]:
    """With the name of the lie in it, if there is one."""
    if wants_decisions(received):
        shown = claims(received.prompt)
        name, made = _spoilt(DECISIONS if lies else {}, chance, decisions(shown), shown)
        return name, json.dumps({"decisions": made})
    if wants_facts(received):
        assert received.schema is not None
        offered = [name for name in received.schema["properties"] if name != "requests"]  # no scope
        name, items = _spoilt(OBSERVATIONS if lies else {}, chance, facts(turns(received.prompt), offered), offered)
        return name, by_scope(offered, *items)
    current, observations = "\n".join(numbered(received.prompt, "s")), numbered(received.prompt, "n")
    true = {"text": text_of(current, observations), "contradictions": []}
    name, answer = _spoilt(TEXTS if lies else {}, chance, true, (current, observations))
    return name, json.dumps(answer)


def _spoilt(lies: Mapping[str, Lie[T]], chance: random.Random, true: T, shown: Any) -> tuple[str | None, T]:
    possible = {name: said for name, lie in lies.items() if (said := lie(chance, true, shown)) is not None}
    if not possible:
        return None, true
    name = chance.choice(list(possible))
    return name, possible[name]


def facts(shown: Sequence[ShownTurn], offered: Collection[str]) -> list[Item]:
    return [(turn.text, place, [turn.n]) for turn in shown if turn.is_persons for place in _places(turn, offered)]


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


def _name(text: str) -> str:
    """In letters, and of this text alone: the same made up twice would lead a forgetting from one to the other."""
    return "".join(chr(ord("a") + int(digit)) for digit in text if digit.isdigit())


def _more(change: Callable[[random.Random, Item, Collection[str], list[Item]], Item | None]) -> Lie[list[Item]]:
    """One more observation, made of a true one."""

    def lie(chance: random.Random, true: list[Item], offered: Collection[str]) -> list[Item] | None:
        made = change(chance, chance.choice(true), offered, true) if true else None
        return None if made is None else [*true, made]

    return lie


def _elsewhere(chance: random.Random, one: Item, offered: Collection[str], true: list[Item]) -> Item | None:
    taken = {place for text, place, _ in true if text == one[0]}
    free = sorted(set(offered) - taken)
    return (one[0], chance.choice(free), one[2]) if free else None


def _invented_source(chance: random.Random, one: Item, offered: Collection[str], true: list[Item]) -> Item:
    """Beside a real one: without any it is all who spoke, and goes with each of them."""
    return f"Another one than {_name(one[0])}.", one[1], [99] if len(true) == 1 else [*one[2], 99]


OBSERVATIONS: dict[str, Lie[list[Item]]] = {
    "observation said twice": _more(lambda _chance, one, _offered, _true: one),
    "observation in another scope": _more(_elsewhere),
    "observation in nobody's scope": _more(lambda _chance, _one, _offered, _true: ("An invention.", "group_99", [1])),
    "observation of a message that isn't there": _more(_invented_source),
    "observation without words": _more(lambda _chance, one, _offered, _true: ("", *one[1:])),
    "observation of sixty words": _more(
        lambda _chance, one, _offered, _true: (f"{'word ' * 60}{_name(one[0])}", *one[1:])
    ),
}


Text = dict[str, Any]
Shown = tuple[str, Sequence[str]]
"""The text so far, and the observations that go into it."""


def _contradicts(newer: Callable[[int], int], older: Callable[[int], int], least: int) -> Lie[Text]:
    """One of the observations, by their count, gives way to another."""

    def lie(_: random.Random, true: Text, shown: Shown) -> Text | None:
        known = shown[1]
        if len(known) < least:
            return None
        one = {"newer": newer(len(known)), "older": older(len(known))}
        words = {name: known[min(n, len(known)) - 1] for name, n in (("was", one["older"]), ("now", one["newer"]))}
        return true | {"contradictions": [one | words]}

    return lie


def _shortened(_: random.Random, true: Text, shown: Shown) -> Text | None:
    words = shown[0].split()
    return true | {"text": " ".join(words[:3])} if len(words) > LONG else None


LONG = 60
TEXTS: dict[str, Lie[Text]] = {
    "contradiction of numbers that aren't there": _contradicts(lambda _: 99, lambda _: 98, 1),
    "older contradicts newer": _contradicts(lambda _: 1, lambda count: count, 2),
    "contradicts itself": _contradicts(lambda _: 1, lambda _: 1, 1),
    "contradiction of what agrees": _contradicts(lambda count: count, lambda _: 1, 2),
    "text that has lost its words": _shortened,
}


def decisions(shown: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"n": claim["n"], "to": to, **verdict(claim["text"]), "text": claim["text"]}
        for claim in shown
        for to in claim["to"]
    ]


def _added(change: dict[str, Any]) -> Lie[list[dict[str, Any]]]:
    def lie(chance: random.Random, true: list[dict[str, Any]], _: Any) -> list[dict[str, Any]] | None:
        return [*true, chance.choice(true) | change] if true else None

    return lie


def _anothers_words(
    chance: random.Random, true: list[dict[str, Any]], shown: Sequence[dict[str, Any]]
) -> list[dict[str, Any]] | None:
    if not true:
        return None
    n = chance.randrange(len(true))
    others = [claim["text"] for claim in shown if claim["text"] != true[n]["text"]]
    return [*true[:n], true[n] | {"text": chance.choice(others)}, *true[n + 1 :]] if others else None


DECISIONS: dict[str, Lie[list[dict[str, Any]]]] = {
    "decision for nobody's group": _added({"to": "group_99"}),
    "decision on a claim that isn't there": _added({"n": 99}),
    "claim in the words of another": _anothers_words,
}
LIES = (*OBSERVATIONS, *TEXTS, *DECISIONS)
