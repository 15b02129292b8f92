"""Everything that is deleted with what is forgotten: `memory.forget_closure`. The statements are built once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BindParameter,
    Boolean,
    ColumnElement,
    CompoundSelect,
    Select,
    and_,
    any_,
    bindparam,
    cast,
    func,
    literal_column,
    select,
    true,
    tuple_,
    union,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import ARRAY, BigInteger, Integer, Text

from memory_sql.db.models import EvidenceRow, ImportedMessageRow, ImportedRow, JudgedRow, LineageRow, ObservationRow


@dataclass(frozen=True, slots=True)
class Seeds:
    """Where a forgetting begins: all that `users` said, whole `conversations` and `scopes`, single observations or messages.

    `confirmable`: what was said there stays if the same person has also said it elsewhere. `attended`: the conversations
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
            "users": list(self.users),
            "conversations": list(self.conversations),
            "scopes": list(self.scopes),
            "scope_ids": [scope_id for scope_id, _ in self.observations],
            "seqs": [seq for _, seq in self.observations],
            "conversation_ids": [conversation_id for conversation_id, _ in self.messages],
            "numbers": [number for _, number in self.messages],
            "confirmable": self.confirmable,
        }


@dataclass(frozen=True, slots=True)
class Taken:
    """The rows to be taken, each kind in order."""

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
            "scope_ids": [scope_id for scope_id, _ in self.observations],
            "seqs": [seq for _, seq in self.observations],
            "conversation_ids": [conversation_id for conversation_id, _ in self.messages],
            "numbers": [number for _, number in self.messages],
            "evidence_ids": list(self.evidence),
        }


@dataclass(frozen=True, slots=True)
class Closure:
    """Everything that is deleted (`erased`), and what a legal hold keeps instead (`withdrawn`).

    `heard`: the scopes of the evidence, where observations that others also support stay without the speaker's name, and
    the scopes of other sources of what is deleted. `reached`: the scopes with something derived from these, on all levels.
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
        """The scopes that lose something."""
        return {*self.heard, *(scope_id for scope_id, _ in self.going.observations)}


def speaks_of(users: Any) -> ColumnElement[bool]:
    """Whether an observation is about any of these users (an array)."""
    some = ObservationRow.subjects != literal_column("'{}'", ARRAY(Text))  # the condition of its index
    return and_(some, ObservationRow.subjects.op("&&")(users))


TAKEN = {
    "scope_ids": BigInteger,
    "seqs": Integer,
    "conversation_ids": Text,
    "numbers": BigInteger,
    "evidence_ids": BigInteger,
}
_SEEDS = {
    "users": Text,
    "conversations": Text,
    "scopes": BigInteger,
    **{name: kind for name, kind in TAKEN.items() if name != "evidence_ids"},
}
_AGENT = bindparam("agent_key", type_=BigInteger)


def _arrays(kinds: dict[str, Any]) -> dict[str, BindParameter[Any]]:
    return {name: bindparam(name, type_=ARRAY(kind)) for name, kind in kinds.items()}


def _closed(*, of_users: bool) -> Select[Any]:
    """One row, which `closure_of_row` reads. `texts` are scopes that lose something else."""
    every = (*TAKEN, *(f"held_{name}" for name in TAKEN))
    seeds, texts = _arrays(_SEEDS), bindparam("texts", type_=ARRAY(BigInteger))
    found = func.memory.forget_closure(_AGENT, *seeds.values(), bindparam("confirmable", type_=Boolean))
    closed = select(found.table_valued(*every)).cte("closed").prefix_with("MATERIALIZED")
    going = [closed.c[name].op("||")(closed.c[f"held_{name}"]) for name in ("scope_ids", "seqs", "evidence_ids")]
    heard, reached = _around(closed, going, seeds["users"] if of_users else None, seeds["scopes"].op("||")(texts))
    return select(*(closed.c[name] for name in every), heard, reached)


def reached_from(begun: Any, agent_key: Any) -> Select[Any]:
    """The scopes with something derived from what these scopes hold, on all levels."""
    line = _made_of(begun.subquery("begun"), agent_key).cte("line", recursive=True)
    return select(line.union(_made_of(line, agent_key)).c.scope_id)


def _made_of(scopes: Any, agent_key: Any) -> Select[Any]:
    """One index look-up for each scope: otherwise all lineage of the agent might be read."""
    link = LineageRow
    made = select(link.scope_id).where(link.agent_key == agent_key, link.source_scope_id == scopes.c.scope_id)
    each = made.correlate(scopes).offset(literal_column("0")).lateral()
    return select(each.c.scope_id).select_from(scopes.join(each, true()))


def _around(given: Any, going: Sequence[Any], users: Any, scopes: Any) -> tuple[Any, Any]:
    """The scopes of the evidence, of other sources of what is deleted, and of observations about `users`: judged again.

    Also the scopes with something derived from what any of these, or of `scopes`, holds, on all levels.
    """
    e, link, j, o = EvidenceRow, LineageRow, JudgedRow, ObservationRow
    scope_ids, seqs, evidence_ids = going
    key = func.unnest(scope_ids, seqs).table_valued("scope_id", "seq", name="key").render_derived()
    gone = select(key.c.scope_id, key.c.seq).select_from(given.join(key, true())).cte("gone")
    said = func.unnest(evidence_ids).table_valued("evidence_id", name="said").render_derived()
    parts = [
        select(e.scope_id)
        .select_from(given.join(said, true()))
        .join(e, and_(e.agent_key == _AGENT, e.evidence_id == said.c.evidence_id)),
        select(link.source_scope_id).where(
            link.agent_key == _AGENT, link.scope_id == gone.c.scope_id, link.seq == gone.c.seq
        ),
        select(j.source_scope_id).where(
            j.agent_key == _AGENT, j.target_scope_id == gone.c.scope_id, j.seq == gone.c.seq
        ),
    ]
    if users is not None:
        parts.append(select(o.scope_id).where(o.agent_key == _AGENT, speaks_of(users)))
    heard = union(*parts).cte("heard")
    begun = union(select(heard.c.scope_id), select(gone.c.scope_id), select(func.unnest(scopes).label("scope_id")))
    return (
        func.array(select(heard.c.scope_id).order_by(heard.c.scope_id).scalar_subquery()).label("heard"),
        func.array(reached_from(begun, _AGENT).order_by("scope_id").scalar_subquery()).label("reached"),
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


def _heard() -> Select[Any]:
    given = _arrays(TAKEN)
    going = select(*(given[name].label(name) for name in ("scope_ids", "seqs", "evidence_ids"))).cte("given")
    return select(*_around(going, [*going.c], None, cast([], ARRAY(BigInteger))))


def _tainted() -> Select[Any]:
    """For each of `scopes`, and each scope whose text holds what is deleted, the first live version that holds it."""
    given = _arrays({"scopes": BigInteger, **TAKEN})
    tainted = func.memory.tainted_versions(_AGENT, given["scopes"], given["scope_ids"], given["seqs"]).table_valued(
        "scope_id", "version", "live"
    )
    version = func.min(tainted.c.version).label("version")
    return select(tainted.c.scope_id, version).where(tainted.c.live).group_by(tainted.c.scope_id)


def _imported() -> CompoundSelect[Any]:
    """The hashed references of what is deleted, and of the texts of `scopes`."""
    i, m, given = ImportedRow, ImportedMessageRow, _arrays({"scopes": BigInteger, **TAKEN})
    gone = func.unnest(given["scope_ids"], given["seqs"]).table_valued("scope_id", "seq").render_derived()
    theirs = func.unnest(given["conversation_ids"], given["numbers"])
    messages = theirs.table_valued("conversation_id", "number").render_derived()
    return union(
        select(i.ref_hash).join(gone, and_(i.agent_key == _AGENT, i.scope_id == gone.c.scope_id, i.seq == gone.c.seq)),
        select(i.ref_hash).where(i.agent_key == _AGENT, i.scope_id == any_(given["scopes"]), i.seq.is_(None)),
        select(m.ref_hash).where(m.agent_key == _AGENT, tuple_(m.conversation_id, m.number).in_(select(messages))),
    )


def _beside() -> Select[Any]:
    """One row: `tainted`; what remains of what is touched (`kept`); the hashed references of what is deleted (`refs`)."""
    given = _arrays(TAKEN)
    kept = func.memory.kept_beside(_AGENT, given["scope_ids"], given["seqs"], given["evidence_ids"]).table_valued(
        "scope_id", "seq", "reason", "users"
    )
    parts = {"tainted": _tainted().subquery(), "kept": kept, "refs": _imported().subquery()}
    return select(*(_rows_of(part).label(name) for name, part in parts.items()))


def _rows_of(found: Any) -> Any:
    """All rows, as an array of arrays."""
    row = func.jsonb_build_array(*found.c)
    return select(func.coalesce(func.jsonb_agg(row), cast([], JSONB))).select_from(found).scalar_subquery()


def _is_there() -> ColumnElement[bool]:
    """Whether any of the given observations exists."""
    o, given = ObservationRow, _arrays(TAKEN)
    key = func.unnest(given["scope_ids"], given["seqs"]).table_valued("scope_id", "seq").render_derived()
    same = and_(o.agent_key == _AGENT, o.scope_id == key.c.scope_id, o.seq == key.c.seq)
    return select(o.seq).join(key, same).exists()


CLOSED, CLOSED_OF_USERS = _closed(of_users=False), _closed(of_users=True)
CLOSED_IF_THERE = CLOSED.where(_is_there())
HEARD, TAINTED, BESIDE = _heard(), _tainted().order_by("scope_id"), _beside()
ALL_IMPORTED = union(
    *(select(table.ref_hash).where(table.agent_key == _AGENT) for table in (ImportedRow, ImportedMessageRow))
)
