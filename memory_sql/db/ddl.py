"""The functions and views of schema `memory`, as they are now: `functions/*.sql` and `views/*.sql`.

Tables live in `tables.py`. The migrations carry copies, frozen; a test proves that both ways end in the same schema.
"""

from __future__ import annotations

from importlib.resources import files

# In the order in which they depend on one another.
FUNCTIONS = (
    "user_ids",
    "visible_scopes",
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
)
VIEWS = (
    "v_observations",
    "v_scope_timeline",
    "v_contradictions",
    "v_pending",
    "v_formation_funnel",
    "v_model_cost",
)


def statements() -> list[str]:
    """One script per function or view, in an order in which they can be run."""
    names = [("functions", name) for name in FUNCTIONS] + [("views", name) for name in VIEWS]
    return [(files(__package__) / folder / f"{name}.sql").read_text() for folder, name in names]
