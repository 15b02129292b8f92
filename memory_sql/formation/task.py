"""One extraction, as it is put to a model.

What people wrote is data: each turn begins a line with what we say of it, between marks that nobody can guess, so that a
text can neither pose as a turn nor end its own fence. The instructions are the same in every call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any

from memory_sql.formation import offline
from memory_sql.formation.answers import ExtractionAnswer, OfferedScope, Turn, answer_for, handles_of
from memory_sql.languages.text import one_line
from memory_sql.llm import Request, prompts
from memory_sql.llm.notation import KINDS, as_data, as_lines, in_lines, mark_for, minute_of

GROUP_ITEMS = 30
NO_CUES, NO_REQUESTS = "Leave `terms` empty.", "Leave `requests` empty."
AS_WELL = " Here stands in a sentence or two what each stretch came to, also where another list has a fact of it."
CLASSES = """
- `label`: how sure it is (said, implied, guessed), then {categories}, then when a plan ends, if
  known: "said fact", "implied commitment until <day>"."""
OF_CATEGORIES = {"commitment": "commitment (promise, plan)", "moment": "moment (happened once)"}
TOPICS = """
- `topics`: one to three subjects that it is about, in one or two words each, the same words for the same subject: "kitchen",
  "hip operation"."""
ANOTHER = "== another conversation; nothing in it answers what was said above"
MEMORY = """
What memory already says, so that you don't write it again (it isn't part of the conversation):
--- {mark} begin memory
{known}
--- {mark} end memory
"""


@dataclass(frozen=True, slots=True)
class ExtractionTask:
    """`now`: when the conversation was last heard, in its zone.

    `silent`: the names, by their handles, of members who say nothing. `max_items` and `group_items` hold for scopes that have
    no limit of their own. `cues`: search cues are asked for; `requests`: what people ask of the memory itself;
    `categories`: which of these an observation is, empty: that isn't asked for; `topics`: what it is about is.
    """

    turns: tuple[Turn, ...]
    scopes: tuple[OfferedScope, ...]
    max_items: int
    max_words: int
    now: datetime
    group_items: int = GROUP_ITEMS
    silent: Mapping[str, str] = field(default_factory=dict)
    cues: bool = True
    requests: bool = True
    categories: tuple[str, ...] = ()
    topics: bool = False

    def request(self, model: str, wrong: str | None = None) -> Request[ExtractionAnswer]:
        """`wrong`: why the answer can't be used that is asked for again."""
        aliases = tuple(scope.alias for scope in self.scopes)
        prompt = self._prompt()
        knowing = [_known(scope) for scope in self.scopes if scope.knows]
        known = as_lines(knowing) if knowing else ""
        said = "\n".join(self._conversation())
        mark = mark_for(known, said)
        instructions, text = prompt.render(
            scopes="\n".join(map(_offer, self.scopes)),
            memory=MEMORY.format(mark=mark, known=known) if known else "",
            conversation=said,
            boundary=mark,
            max_items=self.max_items,
            group_items=self.group_items,
            max_words=self.max_words,
            now=minute_of(self.now),
            lists=", ".join(aliases),
            repair=self._asked_besides(wrong),
            classes=self._classes(),
        )
        answer = answer_for(aliases, classified=bool(self.categories), topics=self.topics)
        return Request("extraction", model, instructions, text, answer, self, prompt.version, mark)

    def _prompt(self) -> prompts.Prompt:
        """The base prompt, or with the instructions of the one scope that is asked about; told what has a say in it."""
        prompt = prompts.load("memory_sql.formation", "extraction")
        for scope in self.scopes:
            if scope.words is not None:
                prompt = prompt.instructed(scope.words.instructions, scope.told)
        return prompt

    def by_rule(self) -> ExtractionAnswer:
        """The answer without a model."""
        return offline.extract(self.turns, self.scopes, self.max_items, self.max_words, requests=self.requests)

    def _conversation(self) -> Iterator[str]:
        """Who is who; a line for each new conversation and day, and for each turn.

        A turn says who is called otherwise than at first.
        """
        names: dict[str, str] = {}
        called_as, texts = handles_of(self.turns), in_lines([turn.text for turn in self.turns])
        for turn, handle in zip(self.turns, called_as, strict=True):
            if turn.speaker != turn.role:  # else nobody has named them
                names.setdefault(handle, turn.speaker)
        yield from (f"{handle} is {as_data(name)}" for handle, name in sorted(names.items()))
        yield from (f"{handle}, who says nothing here, is {as_data(name)}" for handle, name in self.silent.items())
        day: date | None = None
        conversation = 0
        for turn, handle, text in zip(self.turns, called_as, texts, strict=True):
            if turn.conversation != conversation:
                conversation, day = turn.conversation, None
                yield ANOTHER
            if turn.said_at.date() != day:
                day = turn.said_at.date()
                yield f"== {day} {day:%A}"
            called = "" if turn.speaker in (turn.role, names.get(handle)) else f" {as_data(turn.speaker)}"
            yield f"{turn.n} {handle}{called} {turn.said_at:%H:%M} {text}"

    def _classes(self) -> str:
        *others, last = (OF_CATEGORIES.get(name, name) for name in self.categories or ("",))
        classes = CLASSES.format(categories=f"{', '.join(others)} or {last}") if self.categories else ""
        return classes + (TOPICS if self.topics else "")

    def _asked_besides(self, wrong: str | None) -> str:
        repair = f"A first answer could not be used: {wrong}. Answer again, in that form, and briefly." if wrong else ""
        cues, requests = "" if self.cues else NO_CUES, "" if self.requests else NO_REQUESTS
        return "\n".join(filter(None, (cues, requests, repair)))


def _offer(scope: OfferedScope) -> str:
    limits = [f"at least {scope.min_items}"] if scope.min_items else []
    limits += [f"at most {scope.max_items} observations"] if scope.max_items is not None else []
    limits += [f"at most {scope.max_words} words each"] if scope.max_words is not None else []
    limit = f" ({', '.join(limits)})" if limits else ""
    guidance = scope.words.guidance if scope.words else None
    guidance = f" What to look for: {one_line(guidance)}" if guidance else ""
    kept = ", of which only the latest is kept: what happens, not what holds" if scope.lane == "buffer" else ""
    also = AS_WELL if scope.kind == "conversation" else ""
    return f"- {scope.alias}: {_concern(scope)}{kept}{limit}.{also}{guidance}"


def _concern(scope: OfferedScope) -> str:
    if scope.name:
        whole = _concern(replace(scope, name="", display_name=scope.handle))
        return f"of {whole}, all that belongs to {as_data(scope.display_name or scope.name)}: it stands here alone"
    if scope.kind == "individual":
        return f"what concerns {scope.handle or scope.alias.partition('_')[2] or 'P1, the user,'} alone"
    if scope.kind == "group" and scope.display_name:
        return f"the shared work of the group {as_data(scope.display_name)}"
    return KINDS[scope.kind]


def _known(scope: OfferedScope) -> dict[str, Any]:
    return {"scope": scope.alias, "known": list(scope.knows)}
