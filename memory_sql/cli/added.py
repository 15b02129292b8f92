"""What storing and forming a file has done, added up as it happens, as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from memory_sql.cli import output
from memory_sql.histories.documents import BROKEN

if TYPE_CHECKING:
    from memory_sql.domain.adding import AddResult
    from memory_sql.domain.results import FormResult, RunDueResult
    from memory_sql.histories.spool import File

KNOWN = {
    "replaced": "replaced, to be formed anew",
    "differing": "stored with another text, which stays (--replace replaces it)",
    "forgotten": "forgotten, so not stored again; give what is to be said anew a new id",
}
BESIDE = {
    "elsewhere": "formed by another process meanwhile (a worker)",
    "busy": "being formed by another process (a worker)",
}
SHOWN = 5  # ids
UNFORMED = ("excluded", "given_up", "retrying")


@dataclass(slots=True)
class Added:
    """`file` keeps what is said of each conversation and message. The rest is counted: `formed` in messages."""

    file: File
    accepted: int = 0
    duplicates: int = 0
    cleaned: int = 0
    masked: int = 0
    formed: int = 0
    observations: int = 0
    known: int = 0
    consolidated: int = 0
    propagated: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    failed: dict[str, str] = field(default_factory=dict)
    empty_groups: set[str] = field(default_factory=set)
    model: str | None = None
    was_formed: bool = False

    @property
    def stored(self) -> int:
        """Messages that are in the database, also from before."""
        return self.accepted + self.duplicates

    @property
    def is_whole(self) -> bool:
        return not self.failed and not self.file.notes(BROKEN)

    def take(self, result: AddResult) -> None:
        self.accepted += result.accepted
        self.duplicates += result.duplicates
        self.cleaned += result.cleaned
        self.masked += result.masked
        self.empty_groups.update(result.empty_groups)
        for kind in KNOWN:
            self.file.note(kind, getattr(result, kind))
        fresh = bool(result.accepted or result.replaced)
        self.file.outcome(result.conversation_id, result.formation, result.trigger, fresh=fresh)

    def take_formed(self, result: FormResult) -> None:
        self.formed += result.messages
        self.observations += len(result.observations)
        self.known += result.duplicates
        self.refused.update(result.refused)
        if result.model and self.model in (None, "none"):  # the latter if a formation needed no model
            self.model = result.model
        if result.run_ids:
            self.file.outcome(result.conversation_id, "formed" if result.observations else "nothing")

    def take_due(self, done: RunDueResult) -> None:
        for result in done.formed:
            self.take_formed(result)
        self.consolidated += sum(result.version is not None for result in done.consolidated)
        self.propagated += sum(len(result.propagated) for result in done.propagated)
        self.failed.update(done.failed)

    def as_json(self) -> dict[str, Any]:
        counts = ("accepted", "duplicates", "cleaned", "masked", "formed", "observations", "known")
        broken = self.file.notes(BROKEN)
        return {
            "file": self.file.name,
            "messages": self.file.messages(),
            "conversations": self.file.conversations(),
            **{name: getattr(self, name) for name in (*counts, "consolidated", "propagated")},
            **{kind: self.file.notes(kind) for kind in KNOWN},
            "refused": dict(self.refused),
            "failed": self.failed,
            "formation": {one.conversation_id: one.formation for one in self.file.outcomes()},
            "empty_groups": sorted(self.empty_groups),
            "model": self.model,
            "due": {} if self.was_formed else {o.conversation_id: o.trigger for o in self.file.outcomes() if o.trigger},
            **({BROKEN: broken} if broken else {}),
        }

    def as_text(self, agent: str) -> str:
        many = output.many
        became = Counter(one.formation for one in self.file.outcomes())
        lines = [self._head()]
        lines += [f"{told}: {ids(found)}" for kind, told in KNOWN.items() if (found := self.file.notes(kind))]
        if self.formed:
            lines.append(self._formed())
        lines += [f"{told}: {many(became[why], 'conversation')}" for why, told in BESIDE.items() if became[why]]
        if self.observations and became["nothing"]:
            lines.append(f"nothing to remember in {many(became['nothing'], 'conversation')}")
        if self.consolidated:
            lines.append(f"consolidated {many(self.consolidated, 'scope')}")
        if self.propagated:
            lines.append(f"propagated {many(self.propagated, 'claim')}")
        if left := [f"{became[why]} × {why}" for why in UNFORMED if became[why]]:
            lines.append("not formed: " + ", ".join(left))
        if self.empty_groups:
            lines.append(f"groups without members, so nobody sees their memory: {', '.join(sorted(self.empty_groups))}")
        if self.refused:
            lines.append("refused: " + ", ".join(f"{count} × {reason}" for reason, count in self.refused.items()))
        if not self.was_formed:
            due = sum(one.trigger is not None for one in self.file.outcomes())
            of = many(self.file.conversations(), "conversation")
            lines.append(f"due: {due} of {of}; form what is new with: memory-sql conversation form --agent {agent}")
        return output.plain("\n".join(lines))

    def _head(self) -> str:
        many = output.many
        return (
            f"{self.file.name}: {many(self.file.messages(), 'message')} in "
            f"{many(self.file.conversations(), 'conversation')}: {self.accepted:,} new, {self.duplicates:,} known already"
            + (f", {self.cleaned:,} cleaned" if self.cleaned else "")
            + (f", secrets masked in {self.masked:,}" if self.masked else "")
        )

    def _formed(self) -> str:
        """Where nothing came of it, why."""
        many, messages = output.many, output.many(self.formed, "message")
        known = f"{many(self.known, 'observation')} known already"
        if self.observations:
            return f"formed {messages} into {many(self.observations, 'observation')} ({self.model})"
        if self.known:
            return f"read {messages}: nothing new, {known} ({self.model})"
        return f"read {messages}: nothing to remember in them ({self.model})"


def would_add(file: File) -> dict[str, Any]:
    """What storing the file would add to a database that knows none of it."""
    first, last = file.period()
    broken = file.notes(BROKEN)
    return {
        "file": file.name,
        "conversations": file.conversations(),
        "messages": file.distinct(),
        "people": file.people(),
        "groups": file.groups(),
        "first": first,
        "last": last,
        **({BROKEN: broken} if broken else {}),
    }


def would_text(would: dict[str, Any]) -> str:
    many, people = output.many, would["people"]
    period = f", {would['first'][:10]} to {would['last'][:10]}" if would["first"] else ""
    who = f" by {ids(people)}" if people else ""
    groups = f", in {ids(would['groups'])}" if would["groups"] else ""
    said = f"{many(would['messages'], 'message')} in {many(would['conversations'], 'conversation')}"
    return output.plain(f"{would['file']}: {said}{who}{groups}{period}; nothing was stored")


def ids(found: Sequence[str]) -> str:
    more = len(found) - SHOWN
    return ", ".join(found[:SHOWN]) + (f" and {more:,} more" if more > 0 else "")
