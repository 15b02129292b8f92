"""The worst possible model: it does what the author of a text would want, over the OpenAI protocol.

It writes down every sentence of every turn, repeats everything as its text, and would share whatever it is shown with
everybody. Only rules stand between it and other users.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal

from tests.decoys import is_decoy, verdict
from tests.fakes import by_scope
from tests.loopback import Received, numbered, turns

Purpose = Literal["extraction", "consolidation", "propagation"]

_SENTENCE = re.compile(r"(?<=\.)\s+")
_SECTION = re.compile(
    r"^--- (?P<boundary>[0-9a-z]{8,32}) begin (?P<name>\w+)\n(?P<body>.*?)\n--- (?P=boundary) end (?P=name)$"
)


def purpose_of(received: Received) -> Purpose:
    asked: Collection[str] = (received.schema or {}).get("properties", ())
    return "propagation" if "decisions" in asked else "consolidation" if "text" in asked or not asked else "extraction"


def sections(prompt: str) -> dict[str, str]:
    """The parts of a prompt between delimiters, by name."""
    found = re.finditer(_SECTION.pattern, prompt, re.MULTILINE | re.DOTALL)
    return {section["name"]: section["body"] for section in found}


def lines(body: str) -> Iterator[Any]:
    """The JSON values of a part, one a line; nothing if the part is still empty."""
    return (json.loads(line) for line in body.split("\n") if line[:1] in ("{", '"'))


class Obedient:
    """`place`: the offered scope that a sentence goes to. `say`: the wording of a claim for more people.

    `judge`: whether a claim is shared. By default every claim is, and decoys are answered correctly.
    """

    def __init__(
        self,
        place: Callable[[str, Collection[str]], str] = lambda _, offered: "individual",
        say: Callable[[str], str] = lambda text: text,
        rewrite: Callable[[Mapping[str, Any], str], str] = lambda _, text: text,
        judge: Callable[[str], Mapping[str, Any]] = verdict,
    ) -> None:
        self.place, self.say, self.rewrite, self.judge = place, say, rewrite, judge

    def __call__(self, received: Received) -> str:
        parts = sections(received.prompt)
        match purpose_of(received):
            case "extraction":
                assert received.schema is not None
                return self._extract(parts["conversation"], received.schema["properties"])
            case "consolidation":
                current, new = numbered(received.prompt, "s"), numbered(received.prompt, "n")
                return json.dumps({"text": " ".join(current + new), "contradictions": []})
            case "propagation":
                return self._share(list(lines(parts["claims"])))

    def _extract(self, conversation: str, offered: Collection[str]) -> str:
        said = [
            (sentence, self.place(sentence, offered), [turn.n])
            for turn in turns(conversation)
            for sentence in _SENTENCE.split(turn.text)
            if turn.is_persons
        ]
        return by_scope(offered, *said)

    def _share(self, claims: list[Mapping[str, Any]]) -> str:
        decisions = [
            {"n": claim["n"], "to": to, **self.judge(claim["text"]), "text": self._reworded(claim)}
            for claim in claims
            for to in claim["to"]
        ]
        return json.dumps({"decisions": decisions})

    def _reworded(self, claim: Mapping[str, Any]) -> str:
        text = claim["text"]
        return str(text) if is_decoy(text) else self.rewrite(claim, self.say(text))
