"""One propagation as a request to a model. Observations are passed as JSON, between delimiters that nobody can guess."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memory_sql.llm import Request, prompts
from memory_sql.llm.notation import as_data, as_lines, mark_for, minute_of
from memory_sql.propagation import offline
from memory_sql.propagation.answers import Claim, OfferedTarget, PropagationAnswer


@dataclass(frozen=True, slots=True)
class PropagationTask:
    """`decoys`: the numbers of the claims whose answer is known, and whether they must be shared."""

    claims: tuple[Claim, ...]
    targets: tuple[OfferedTarget, ...]
    now: datetime
    decoys: Mapping[int, bool] = field(default_factory=dict)

    def request(self, model: str, wrong: str | None = None) -> Request[PropagationAnswer]:
        """`wrong`: why the previous answer couldn't be used, if this is a second request."""
        prompt = prompts.load("memory_sql.propagation", "propagation")
        claims = as_lines([_claim(claim) for claim in self.claims])
        boundary = mark_for(claims)
        instructions, text = prompt.render(
            targets="\n".join(map(_target, self.targets)),
            claims=claims,
            boundary=boundary,
            now=minute_of(self.now),
            repair=f"A first answer could not be used: {wrong}. Answer again, in that form." if wrong else "",
        )
        return Request("propagation", model, instructions, text, PropagationAnswer, self, prompt.version, boundary)

    def by_rule(self) -> PropagationAnswer:
        """Answers by rule, without a model."""
        return offline.propagate(self.claims, self.targets, self.decoys)


def _target(target: OfferedTarget) -> str:
    if target.kind == "group":
        return f"- {target.alias}: the shared work of the group {as_data(target.display_name or 'without a name')}"
    return f"- {target.alias}: lessons that help anybody, in any group"


def _claim(claim: Claim) -> dict[str, Any]:
    also = {"also": list(claim.also)} if claim.also else {}
    return {"n": claim.n, "to": list(claim.to), "observed_at": claim.observed_at, "text": claim.text, **also}
