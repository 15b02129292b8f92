"""The methods of `Memory` by subject. Each subject is a module here, which is imported with the first of its calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memory_sql.errors import InputError
from memory_sql.later import imported

if TYPE_CHECKING:
    from memory_sql.resources.admin import Admin
    from memory_sql.resources.conversations import Conversations
    from memory_sql.resources.entities import Entities
    from memory_sql.resources.episodes import Episodes
    from memory_sql.resources.groups import Groups
    from memory_sql.resources.holds import Holds
    from memory_sql.resources.imports import Imports
    from memory_sql.resources.keys import Keys
    from memory_sql.resources.models import Models
    from memory_sql.resources.observations import Observations
    from memory_sql.resources.people import People
    from memory_sql.resources.prompts import Prompts
    from memory_sql.resources.runtime import Runtime
    from memory_sql.resources.scopes import Scopes
    from memory_sql.resources.topics import Topics
    from memory_sql.resources.work import Work

NOT_SENT = "a Memory can't be copied or sent to another process: open one there, with the same URL and settings"
FACES = {
    "observations": "Observations",
    "scopes": "Scopes",
    "entities": "Entities",
    "topics": "Topics",
    "imports": "Imports",
    "prompts": "Prompts",
    "conversations": "Conversations",
    "episodes": "Episodes",
    "groups": "Groups",
    "people": "People",
    "holds": "Holds",
    "keys": "Keys",
    "models": "Models",
    "work": "Work",
    "admin": "Admin",
}


class Faces:
    """Has each face as an attribute of its name. `_spread`: the shards, if there are several (`memory_sql.shards`)."""

    _spread: Any = None
    if TYPE_CHECKING:
        _runtime: Runtime
        observations: Observations
        scopes: Scopes
        entities: Entities
        topics: Topics
        imports: Imports
        prompts: Prompts
        conversations: Conversations
        episodes: Episodes
        groups: Groups
        people: People
        holds: Holds
        keys: Keys
        models: Models
        work: Work
        admin: Admin
    else:

        def __getattr__(self, name: str) -> object:
            if name not in FACES:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            face = getattr(imported(f"memory_sql.resources.{name}"), FACES[name])(self._runtime)
            return self.__dict__.setdefault(name, face)

        def __reduce__(self) -> None:
            """As pickle, copy and pools of processes call it."""
            raise InputError(NOT_SENT)

        def __enter__(self) -> None:
            """Type checkers don't see it, so that they complain as well."""
            raise InputError("memory_sql.Memory is opened by `async with`; memory_sql.sync.Memory by `with`")

        def __exit__(self, *_: object) -> None:
            """Never reached; without it nobody calls `__enter__`."""

        def __dir__(self) -> list[str]:
            return sorted({*super().__dir__(), *FACES})
