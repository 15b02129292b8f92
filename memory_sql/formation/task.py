"""One extraction, as it is put to a model.

What people wrote is data: turns go in as JSON, between marks that nobody can guess, so that a text can neither pose
as a turn nor end its own fence.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memory_sql.formation import offline
from memory_sql.formation.answers import ExtractionAnswer, OfferedScope, Turn, answer_for
from memory_sql.languages.text import one_line
from memory_sql.llm import Request, prompts
from memory_sql.llm.notation import KINDS, NOTHING_YET, as_data, as_lines, minute_of


@dataclass(frozen=True, slots=True)
class ExtractionTask:
    turns: tuple[Turn, ...]
    scopes: tuple[OfferedScope, ...]
    max_items: int
    max_words: int
    now: datetime

    def request(self, model: str, wrong: str | None = None) -> Request[ExtractionAnswer]:
        """`wrong`: why the answer can't be used that is asked for again."""
        aliases = tuple(scope.alias for scope in self.scopes)
        prompt, boundary = prompts.load("memory_sql.formation", "extraction"), secrets.token_hex(16)
        instructions, text = prompt.render(
            scopes="\n".join(map(_offer, self.scopes)),
            memory=as_lines([_known(scope) for scope in self.scopes if scope.knows]) or NOTHING_YET,
            conversation=as_lines([_turn(turn) for turn in self.turns]),
            boundary=boundary,
            max_items=self.max_items,
            max_words=self.max_words,
            now=minute_of(self.now),
            nothing=json.dumps({alias: [] for alias in aliases}),
            repair=f"A first answer could not be used: {wrong}. Answer again, in that form, and briefly."
            if wrong
            else "",
        )
        return Request("extraction", model, instructions, text, answer_for(aliases), self, prompt.version, boundary)

    def by_rule(self) -> ExtractionAnswer:
        """The answer without a model."""
        return offline.extract(self.turns, self.scopes, self.max_items, self.max_words)


def _offer(scope: OfferedScope) -> str:
    limits = [f"at most {scope.max_items} observations"] if scope.max_items is not None else []
    limits += [f"at most {scope.max_words} words each"] if scope.max_words is not None else []
    limit = f" ({', '.join(limits)})" if limits else ""
    guidance = f" What to look for: {one_line(scope.guidance)}" if scope.guidance else ""
    return f"- {scope.alias}: {_concern(scope)}{limit}.{guidance}"


def _concern(scope: OfferedScope) -> str:
    if scope.kind == "individual":
        return f"what concerns {scope.alias.partition('_')[2] or 'the user'} alone"
    if scope.kind == "group" and scope.display_name:
        return f"the shared work of the group {as_data(scope.display_name)}"
    return KINDS[scope.kind]


def _known(scope: OfferedScope) -> dict[str, Any]:
    return {"scope": scope.alias, "known": list(scope.knows)}


def _turn(turn: Turn) -> dict[str, Any]:
    who = {"role": turn.role, "speaker": turn.speaker} | ({"person": turn.person} if turn.person else {})
    return {"n": turn.n, **who, "at": turn.said_at, "text": turn.text}
