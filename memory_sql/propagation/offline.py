"""Decides by rule what may be shared more widely: statements on shared matters that are about no person. English only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memory_sql.llm.offline import PERSONAL, SHARED
from memory_sql.propagation.answers import Claim, Decision, OfferedTarget, PropagationAnswer


def propagate(
    claims: Sequence[Claim], targets: Sequence[OfferedTarget], decoys: Mapping[int, bool]
) -> PropagationAnswer:
    """Shares statements on shared matters that are about no person, without the name of who said them.

    Decoys test whether a model can be trusted; these rules answer them correctly.
    """
    kinds = {target.alias: target.kind for target in targets}
    return PropagationAnswer(
        decisions=[
            _decision(claim, to, kinds[to]) if claim.n not in decoys else _known(claim, to, goes=decoys[claim.n])
            for claim in claims
            for to in claim.to
        ]
    )


def _known(claim: Claim, to: str, *, goes: bool) -> Decision:
    return Decision(n=claim.n, to=to, personal=not goes, general=goes, valuable=goes, text=claim.text if goes else "")


def _decision(claim: Claim, to: str, kind: str) -> Decision:
    said = claim.text.partition(" said: ")[2] or claim.text
    personal = bool(PERSONAL.search(said))
    general = bool(SHARED.search(said)) if kind == "group" else bool(claim.also)
    return Decision(n=claim.n, to=to, personal=personal, general=general, valuable=True, text=said)
