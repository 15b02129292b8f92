"""One recheck as a request to a model: numbered pairs of observations, and what the model says of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from memory_sql.consolidation.answers import Named, stated
from memory_sql.domain.scopes import AbsorbedObservation
from memory_sql.llm import Request, prompts
from memory_sql.llm.notation import KINDS, as_data, mark_for, minute_of


class NamedPair(Named):
    """A pair by its number in the prompt. `was`: words of the earlier one that give way; `still`: what else of it holds."""

    pair: int
    outcome: Literal["contradicts", "same", "unrelated"] = Field(alias="is")
    was: str | None = None
    now: str | None = None
    still: Annotated[str | None, BeforeValidator(stated)] = None


def _readable(value: object) -> object:
    """What can't be read names no pair, and costs no other."""
    return [item for item in map(_read, value) if item is not None] if isinstance(value, list | tuple) else []


def _read(item: object) -> NamedPair | None:
    try:
        return item if isinstance(item, NamedPair) else NamedPair.model_validate(item)
    except ValidationError:
        return None


class ComparedPairs(BaseModel):
    """The pairs that a model doesn't take for unrelated."""

    model_config = ConfigDict(extra="ignore")

    pairs: Annotated[Sequence[NamedPair], BeforeValidator(_readable)]


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """`earlier` was said before `later`, each when it was said last."""

    earlier: AbsorbedObservation
    later: AbsorbedObservation

    @property
    def key(self) -> tuple[int, int]:
        """Their numbers, the lower one first."""
        one, other = sorted((self.earlier.seq, self.later.seq))
        return one, other


@dataclass(frozen=True, slots=True)
class RecheckTask:
    kind: str
    whose: str | None
    pairs: Sequence[ComparedPair]
    now: datetime

    def request(self, model: str) -> Request[ComparedPairs]:
        prompt = prompts.load("memory_sql.consolidation", "recheck", "recheck.md")
        pairs = "\n".join(_lines(n, pair) for n, pair in enumerate(self.pairs, 1))
        boundary = mark_for(pairs)
        instructions, text = prompt.render(
            scope=KINDS[self.kind],
            whose=as_data(self.whose or "everybody"),
            pairs=pairs,
            boundary=boundary,
            now=minute_of(self.now),
        )
        return Request("recheck", model, instructions, text, ComparedPairs, self, prompt.version, boundary)

    def by_rule(self) -> ComparedPairs:
        """Without a model nothing is found: rules can't tell what both are true."""
        return ComparedPairs(pairs=[])


def _lines(n: int, pair: ComparedPair) -> str:
    return "\n".join(
        f"p{n} {which} {minute_of(item.observed_at)} {as_data(item.content)}"
        for which, item in (("earlier", pair.earlier), ("later", pair.later))
    )
