"""The functions, views and walls of schema `memory`, as they are now: `functions/*.sql`, `views/*.sql`, `walls/*.sql`.

Tables live in `tables.py`. The migrations carry copies, frozen; a test proves that both ways end in the same schema.
"""

from __future__ import annotations

from importlib.resources import files

# In the order in which they depend on one another.
FUNCTIONS = (
    "principal",
    "user_ids",
    "visible_scopes",
    "my_scopes",
    "pending_observations",
    "refresh_due",
    "formation_due",
    "add_messages",
    "refuse_change",
    "guard_privacy",
    "forget_closure",
    "tainted_versions",
    "erase",
    "erase_agent",
    "text_statistics",
    "observation_version",
    "static_layer",
    "search",
    "known_at",
    "static_layer_at",
    "agent_settings",
    "digest_candidates",
)
VIEWS = (
    "v_observations",
    "v_scope_timeline",
    "v_contradictions",
    "v_pending",
    "v_formation_funnel",
    "v_model_cost",
)
WALLS = ("policies",)
PARTS = {"functions": FUNCTIONS, "views": VIEWS, "walls": WALLS}


def statements() -> list[str]:
    """One script per file, in an order in which they can be run."""
    return [
        (files(__package__) / folder / f"{name}.sql").read_text() for folder, names in PARTS.items() for name in names
    ]
