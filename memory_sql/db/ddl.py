"""The functions, views and walls of schema `memory`, as they are now: `functions/*.sql`, `views/*.sql`, `walls/*.sql`.

Tables live in `tables.py`. The migrations carry copies, frozen; a test proves that both ways end in the same schema.
"""

from __future__ import annotations

from importlib.resources import files

BEFORE_TABLES = ("search_tokens",)  # what indexes are made of
# In the order in which they depend on one another.
FUNCTIONS = (
    "principal",
    "user_ids",
    "left_groups",
    "visible_scopes",
    "visible_sessions",
    "retention_start",
    "retained_messages",
    "my_scopes",
    "pending_observations",
    "refresh_due",
    "formation_due",
    "add_messages",
    "refuse_change",
    "guard_privacy",
    "held",
    "person",
    "propagation_targets",
    "trust",
    "people_behind",
    "shareable",
    "peers",
    "alike",
    "derived",
    "forget_closure",
    "tainted_versions",
    "speakers_of",
    "detach",
    "erase",
    "erase_agent",
    "text_statistics",
    "observation_version",
    "static_layer",
    "known_at",
    "query_lexemes",
    "lexeme_queries",
    "holds_text",
    "search_observations",
    "search_messages",
    "search",
    "static_layer_at",
    "read_messages",
    "end_retention",
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
    "v_retrieval",
    "v_propagation_flow",
)
WALLS = ("policies",)
PARTS = {"functions": FUNCTIONS, "views": VIEWS, "walls": WALLS}


def before_tables() -> list[str]:
    return [_script("functions", name) for name in BEFORE_TABLES]


def statements() -> list[str]:
    """One script per file, in an order in which they can be run once the tables are there."""
    return [_script(folder, name) for folder, names in PARTS.items() for name in names]


def _script(folder: str, name: str) -> str:
    return (files(__package__) / folder / f"{name}.sql").read_text()
