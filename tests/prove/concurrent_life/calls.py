"""Everything that is public, and what of it no client calls."""

from __future__ import annotations

import inspect
from importlib import import_module

from memory_sql.memory import Memory
from memory_sql.resources.faces import FACES

NOT_CALLED = {
    "open": "each life opens the memories of its clients, and at its end a backup",
    "close": "each life closes them",
    "require_llm": "it makes what the first use makes",
    "people.forget": "it is `forget` for each agent in turn, and that is called",
    "imports.mem0": "it stores as `imports.mongo` does, which is called; only the reading differs",
    "models.check": "it asks about the model, and reads and stores nothing",
    "keys.known": "`keys.find` asks it, and that is called",
    "keys.link": "it only signs; tests/server has the links of several processes",
    "keys.redeem": "as `keys.link`",
    "work.recheck": "its worker's loop isn't on; what it changes goes through the code of contradictions, which is",
    "work.learn": "it is off; it writes one fact as `observe` does, which is called",
    "work.note_action": "it adds an event, which the tools do that are called",
    "admin.restore_check": "only for a backup: each life restores one at its end",
    "admin.move": "of shards, which a life over shards moves its agents between",
    "admin.position": "it only reads how far the log is; a life has no replica that could be behind",
}


def public_calls() -> set[str]:
    """The methods of `Memory`, and of its faces: `observations.get`."""
    faces = {name: getattr(import_module(f"memory_sql.resources.{name}"), kind) for name, kind in FACES.items()}
    return {
        prefix + name
        for prefix, of in (("", Memory), *((f"{name}.", face) for name, face in faces.items()))
        for name, method in inspect.getmembers(of, inspect.isfunction)
        if not name.startswith("_")
    }
