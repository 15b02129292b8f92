"""Whether a change that a model proposes may be made: allowed, deferred to a person, or denied (R175–R179). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

ActionKind = Literal[
    "store_episode", "store_note", "update_note", "create_artifact", "summarize_node", "discard", "link_graph"
]
Lifecycle = Literal["active", "validated", "candidate", "stale", "archived"]
Origin = Literal["extraction", "consolidation", "replay", "manual", "unknown"]
Outcome = Literal["allow", "defer", "deny"]
Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]

IMPORTANT = 0.8  # from here on nothing is discarded for good on a model's word
UNSURE = 0.35  # below it, what has a known origin waits for a person
OF_WHAT_IS_CURRENT = frozenset({"update_note", "create_artifact", "link_graph"})


class Eligibility(BaseModel):
    """What is known of the memory that an action is about."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    confidence: Share = 0.0
    lifecycle: Lifecycle = Field("candidate", alias="lifecycleState")
    importance: Share = 0.0
    source: Origin = "unknown"


class Decision(NamedTuple):
    """`reason`: one word; empty if it is allowed."""

    outcome: Outcome
    reason: str = ""


def action_of(value: object) -> ActionKind:
    """What isn't an action is to discard (R178)."""
    return cast("ActionKind", value) if isinstance(value, str) and value in get_args(ActionKind) else "discard"


def eligibility_of(value: Eligibility | Mapping[str, object] | object) -> Eligibility:
    """What isn't valid as a whole counts as nothing known (R177, R179)."""
    if isinstance(value, Eligibility):
        return value
    try:
        return Eligibility.model_validate(value)
    except ValidationError:
        return Eligibility(lifecycleState="candidate")


def decide(action: object, about: object, *, enabled: bool = True, token_budget: int = 1500) -> Decision:
    """The first rule that applies. `token_budget`: tokens an hour for summaries."""
    kind, known = action_of(action), eligibility_of(about)
    if not enabled:
        return Decision("deny", "disabled")
    if kind == "summarize_node" and token_budget <= 0:
        return Decision("defer", "budget")
    if kind == "discard" and known.importance >= IMPORTANT:
        return Decision("deny", "important")
    if known.lifecycle in ("stale", "archived") and kind in OF_WHAT_IS_CURRENT:
        return Decision("deny", "past")
    if known.source != "unknown" and known.confidence < UNSURE and kind != "discard":
        return Decision("defer", "unsure")
    return Decision("allow")
