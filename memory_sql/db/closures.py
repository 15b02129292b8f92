"""All that goes with what is forgotten, and where: `memory.forget_closure`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, cast, func, select, true, union
from sqlalchemy.types import ARRAY, BigInteger, Integer, Text

from memory_sql.db.models import EvidenceRow, JudgedRow, LineageRow, ObservationRow


@dataclass(frozen=True, slots=True)
class Seeds:
    """Where a forgetting begins: all that `users` said, whole `conversations` and `scopes`, single observations, messages.

    `confirmable`: what was said there stays if the same person has said so elsewhere. `attended` are the conversations
    that lose the users as participants; what others said there stays.
    """

    users: tuple[str, ...] = ()
    conversations: tuple[str, ...] = ()
    scopes: tuple[int, ...] = ()
    observations: tuple[tuple[int, int], ...] = ()
    messages: tuple[tuple[str, int], ...] = ()
    confirmable: bool = True
    attended: tuple[str, ...] = ()

    @property
    def arguments(self) -> dict[str, Any]:
        return {
            "users": cast(list(self.users), ARRAY(Text)),
            "conversations": cast(list(self.conversations), ARRAY(Text)),
            "scopes": cast(list(self.scopes), ARRAY(BigInteger)),
            "scope_ids": cast([scope_id for scope_id, _ in self.observations], ARRAY(BigInteger)),
            "seqs": cast([seq for _, seq in self.observations], ARRAY(Integer)),
            "conversation_ids": cast([conversation_id for conversation_id, _ in self.messages], ARRAY(Text)),
            "numbers": cast([number for _, number in self.messages], ARRAY(BigInteger)),
            "confirmable": self.confirmable,
        }


@dataclass(frozen=True, slots=True)
class Taken:
    """Rows that go, each kind in order."""

    observations: tuple[tuple[int, int], ...] = ()
    messages: tuple[tuple[str, int], ...] = ()
    evidence: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.observations or self.messages or self.evidence)

    def __or__(self, other: Taken) -> Taken:
        return Taken(
            tuple(sorted(self.observations + other.observations)),
            tuple(sorted(self.messages + other.messages)),
            tuple(sorted(self.evidence + other.evidence)),
        )

    @property
    def arrays(self) -> dict[str, Any]:
        return {
            "scope_ids": cast([scope_id for scope_id, _ in self.observations], ARRAY(BigInteger)),
            "seqs": cast([seq for _, seq in self.observations], ARRAY(Integer)),
            "conversation_ids": cast([conversation_id for conversation_id, _ in self.messages], ARRAY(Text)),
            "numbers": cast([number for _, number in self.messages], ARRAY(BigInteger)),
            "evidence_ids": cast(list(self.evidence), ARRAY(BigInteger)),
        }


@dataclass(frozen=True, slots=True)
class Closure:
    """All that goes: what is `erased`, and what a legal hold keeps, which is `withdrawn`.

    `heard`: the scopes of the evidence, where what others support as well stays without the speaker's name, and
    those of other sources of what goes. `reached`: those in which something follows these, over all levels.
    """

    erased: Taken = Taken()
    withdrawn: Taken = Taken()
    heard: tuple[int, ...] = ()
    reached: tuple[int, ...] = ()

    @property
    def going(self) -> Taken:
        return self.erased | self.withdrawn

    @property
    def conversations(self) -> list[str]:
        return sorted({conversation_id for conversation_id, _ in self.going.messages})

    @property
    def scopes(self) -> set[int]:
        """Those that lose something."""
        return {*self.heard, *(scope_id for scope_id, _ in self.going.observations)}


def closed_over(agent_key: int, seeds: Seeds, texts: Iterable[int]) -> Select[Any]:
    """One row: what `closure_of_row` reads. `texts`: scopes that lose something else."""
    columns = ("scope_ids", "seqs", "conversation_ids", "numbers", "evidence_ids")
    every = (*columns, *(f"held_{name}" for name in columns))
    closed = (
        select(func.memory.forget_closure(agent_key, *seeds.arguments.values()).table_valued(*every))
        .cte("closed")
        .prefix_with("MATERIALIZED")
    )
    going = [closed.c[name].op("||")(closed.c[f"held_{name}"]) for name in ("scope_ids", "seqs", "evidence_ids")]
    heard, reached = around(agent_key, closed, going, seeds.users, [*seeds.scopes, *texts])
    return select(*(closed.c[name] for name in every), heard, reached)


def around(
    agent_key: int, given: Any, going: Sequence[Any], users: Sequence[str], scopes: Sequence[int]
) -> tuple[Any, Any]:
    """The scopes of the evidence, those of other sources of what goes and those that speak of `users`: judged again.

    And those in which something was made of what any of these holds, or `scopes` do, over all levels.
    """
    e, link, j, o = EvidenceRow, LineageRow, JudgedRow, ObservationRow
    scope_ids, seqs, evidence_ids = going
    key = func.unnest(scope_ids, seqs).table_valued("scope_id", "seq", name="key").render_derived()
    gone = select(key.c.scope_id, key.c.seq).select_from(given.join(key, true())).cte("gone")
    said = func.unnest(evidence_ids).table_valued("evidence_id", name="said").render_derived()
    parts = [
        select(e.scope_id)
        .select_from(given.join(said, true()))
        .join(e, and_(e.agent_key == agent_key, e.evidence_id == said.c.evidence_id)),
        select(link.source_scope_id).where(
            link.agent_key == agent_key, link.scope_id == gone.c.scope_id, link.seq == gone.c.seq
        ),
        select(j.source_scope_id).where(
            j.agent_key == agent_key, j.target_scope_id == gone.c.scope_id, j.seq == gone.c.seq
        ),
    ]
    if users:
        parts.append(select(o.scope_id).where(o.agent_key == agent_key, speaks_of(users)))
    heard = union(*parts).cte("heard")
    mine = link.agent_key == agent_key
    begun = union(select(heard.c.scope_id), select(gone.c.scope_id), select(func.unnest(keys_of(scopes))))
    line = select(link.scope_id).where(mine, link.source_scope_id.in_(begun)).cte("line", recursive=True)
    line = line.union(select(link.scope_id).where(mine, link.source_scope_id == line.c.scope_id))
    return (
        func.array(select(heard.c.scope_id).order_by(heard.c.scope_id).scalar_subquery()).label("heard"),
        func.array(select(line.c.scope_id).order_by(line.c.scope_id).scalar_subquery()).label("reached"),
    )


def _taken(
    scope_ids: Sequence[int],
    seqs: Sequence[int],
    conversation_ids: Sequence[str],
    numbers: Sequence[int],
    evidence: Sequence[int],
) -> Taken:
    return Taken(
        tuple(sorted(zip(scope_ids, seqs, strict=True))),
        tuple(sorted(zip(conversation_ids, numbers, strict=True))),
        tuple(sorted(evidence)),
    )


def closure_of_row(row: Any) -> Closure:
    return Closure(_taken(*row[:5]), _taken(*row[5:10]), tuple(row.heard), tuple(row.reached))


def released_rows(rows: Iterable[Any]) -> Taken:
    found = list(rows)
    return Taken(
        tuple(sorted((row.scope_id, row.seq) for row in found if row.seq is not None)),
        tuple(sorted((row.conversation_id, row.number) for row in found if row.number is not None)),
        tuple(sorted(row.evidence_id for row in found if row.evidence_id is not None)),
    )


def keys_of(scopes: Sequence[int]) -> Any:
    return cast(sorted(scopes), ARRAY(BigInteger))


def speaks_of(users: Sequence[str]) -> ColumnElement[bool]:
    """Whether an observation speaks of any of these users."""
    them = cast(list(users), ARRAY(Text))
    return and_(ObservationRow.subjects != cast([], ARRAY(Text)), ObservationRow.subjects.op("&&")(them))
