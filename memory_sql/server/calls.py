"""What can be asked for over HTTP: one line a route. Parameters, types and docs are those of the method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from memory_sql.domain.keys import Right
from memory_sql.server import gates
from memory_sql.server.gates import Gate

Whose = Literal["host", "user"]


class Call(NamedTuple):
    """A route and the method that it calls.

    `path` is under `/v1/agents/{agent_id}`. `right`: what a key needs. `own`: what a key needs that stands for a user; None:
    such a key can't call it. `gate` checks what such a key asks for. `renamed`: names of the path for arguments of the
    method. `fixed`: arguments that no request gives. `others`: lists in the answer about others' memory, empty for a user's
    key. `text`: the answer can be asked for as text.
    """

    method: str
    path: str
    target: str
    right: Right
    own: Right | None = None
    gate: Gate | None = None
    status: int = 200
    renamed: Mapping[str, str] = {}
    fixed: Mapping[str, Any] = {}
    others: tuple[str, ...] = ()
    text: bool = False
    example: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """The name of the operation in OpenAPI."""
        return "replace_message" if "replace" in self.fixed else self.target.replace(".", "_")


MIA = {"user_id": "mia"}
TEA = {"id": "m1", "role": "user", "content": "I prefer green tea, and never before ten."}
ONE = "observations/{observation_id}"
SELECTED = {"selection": "observation_id"}
MEMBER = "groups/{group_id}/members/{user_id}"

CALLS: tuple[Call, ...] = (
    # Conversations
    Call("POST", "conversations/{conversation_id}/messages", "add", "write", "write", gates.adds, 201,
         example={**MIA, "messages": [TEA]}),
    Call("GET", "conversations/{conversation_id}/messages", "conversations.messages", "read", "read"),
    Call("PUT", "conversations/{conversation_id}/messages/{message_id}", "add", "write", fixed={"replace": True},
         example={**MIA, "message": {"role": "user", "content": "I prefer black tea."}}),
    Call("POST", "conversations/{conversation_id}/form", "conversations.form", "write", example={"again": False}),
    # Observations
    Call("POST", "observations", "observe", "write", "write", gates.observes, 201,
         example={**MIA, "text": "Mia prefers green tea."}),
    Call("GET", "observations", "observations.list", "read", "read"),
    Call("GET", ONE, "observations.get", "read", "read"),
    Call("GET", f"{ONE}/sources", "observations.sources", "read", "read"),
    Call("GET", f"{ONE}/spread", "observations.spread", "read", "read"),
    Call("PATCH", ONE, "observations.update", "write", "write", gates.owns, example={**MIA, "text": "Mia drinks tea."}),
    Call("POST", f"{ONE}/confirm", "observations.confirm", "write", "write", example=MIA),
    Call("POST", f"{ONE}/dispute", "observations.dispute", "write", "write", example=MIA),
    Call("POST", f"{ONE}/feedback", "observations.feedback", "write", "write", status=204, example={**MIA, "value": 1}),
    Call("POST", f"{ONE}/mark", "observations.mark", "write", "write", gates.owns, example={**MIA, "private": True}),
    Call("POST", f"{ONE}/resolve", "observations.resolve", "write", "write", gates.owns,
         example={**MIA, "resolved": "fulfilled"}),
    Call("POST", f"{ONE}/reinstate", "observations.reinstate", "write", "write", gates.owns, example=MIA),
    Call("POST", f"{ONE}/quarantine", "observations.quarantine", "write", "write", gates.owns, renamed=SELECTED,
         example=MIA),
    Call("POST", f"{ONE}/unquarantine", "observations.unquarantine", "write", "write", gates.owns, renamed=SELECTED,
         example=MIA),
    # Reading for a prompt
    Call("POST", "context", "context", "read", "read", text=True, example={**MIA, "message": "What do I drink?"}),
    Call("POST", "digest", "digest", "read", "read", text=True, example={**MIA, "query": "tea"}),
    Call("POST", "search", "search", "read", "read", text=True, example={**MIA, "query": "tea"}),
    Call("GET", "entities", "entities.list", "read", "read"),
    Call("GET", "entities/{name}", "entities.get", "read", "read"),
    Call("GET", "topics", "topics.list", "read", "read"),
    # Deleting
    Call("POST", "forget", "forget", "forget", "forget", gates.forgets, others=("kept", "naming"),
         example={**MIA, "dry_run": True}),
    # Scopes
    Call("GET", "scopes", "scopes.list", "read", "read"),
    Call("GET", "scopes/{scope_id}", "scopes.get", "read"),
    Call("GET", "scopes/{scope_id}/history", "scopes.history", "read", "read"),
    Call("GET", "scopes/{scope_id}/diff", "scopes.diff", "read", "read"),
    Call("POST", "scopes/{scope_id}/consolidate", "scopes.consolidate", "write"),
    Call("POST", "scopes/{scope_id}/undo", "scopes.undo", "write"),
    Call("POST", "propagate", "scopes.propagate", "write", example={"dry_run": True}),
    # Episodes
    Call("GET", "episodes", "episodes.list", "read", "read"),
    Call("GET", "episodes/{episode_id}", "episodes.get", "read", "read"),
    # Groups
    Call("GET", "groups", "groups.list", "read", "read"),
    Call("PUT", "groups/{group_id}", "groups.create", "write", example={"display_name": "The harbour"}),
    Call("GET", "groups/{group_id}/members", "groups.members", "read", "read", gates.belongs),
    Call("PUT", MEMBER, "groups.add_member", "write", example={}),
    Call("DELETE", MEMBER, "groups.remove_member", "write"),
    # People, holds, work
    Call("GET", "people", "people.list", "admin"),
    Call("GET", "people/{user_id}/export", "people.export", "admin", "read"),
    Call("GET", "holds", "holds.list", "admin"),
    Call("POST", "holds", "holds.place", "admin", status=201, example={**MIA, "reason": "Case 7"}),
    Call("DELETE", "holds/{hold_id}", "holds.release", "admin"),
    Call("GET", "work/backlog", "work.backlog", "admin"),
    Call("GET", "work/costs", "work.costs", "admin"),
    Call("GET", "work/reviews", "work.reviews", "admin"),
    Call("POST", "work/reviews/{review_id}", "work.decide", "admin", status=204, example={"accept": True}),
    Call("POST", "work/embed", "work.embed", "admin"),
    Call("POST", "work/recheck", "work.recheck", "admin", example={}),
    Call("POST", "work/run", "run_due", "admin"),
    Call("GET", "stats", "admin.stats", "admin"),
    Call("GET", "settings", "admin.settings", "admin"),
)  # fmt: skip
