"""Everything that is deleted with what is forgotten: `memory.forget_closure`. The statements are built once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
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
    literal,
    literal_column,
    or_,
    select,
    true,
    union,
    union_all,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import ARRAY, BigInteger, Integer, Text

from memory_sql.db.locks import locking_found
from memory_sql.db.models import (
    AgentRow,
    ConversationRow,
    EvidenceRow,
    ImportedMessageRow,
    ImportedRow,
    JudgedRow,
    LineageRow,
    ObservationRow,
    ScopeRow,
)
from memory_sql.db.participants import took_part
from memory_sql.domain.people import ForgottenKind


@dataclass(frozen=True, slots=True)
class Seeds:
    """Where a forgetting begins: all that `users` said, whole `conversations` and `scopes`, single observations or messages.

    `confirmable`: what was said there stays if the same person has also said it elsewhere. `attended`: the conversations
    that lose the users as participants; what others said there stays. `named`: what is remembered as forgotten, each
    `(kind, id)`. `others_stay`: of what goes, the other messages that it came from stay.
    """

    users: tuple[str, ...] = ()
    conversations: tuple[str, ...] = ()
    scopes: tuple[int, ...] = ()
    observations: tuple[tuple[int, int], ...] = ()
    messages: tuple[tuple[str, int], ...] = ()
    confirmable: bool = True
    attended: tuple[str, ...] = ()
    named: tuple[tuple[ForgottenKind, str], ...] = ()
    others_stay: bool = False

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
            "others_stay": self.others_stay,
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
            tuple(sorted({*self.observations, *other.observations})),
            tuple(sorted({*self.messages, *other.messages})),
            tuple(sorted({*self.evidence, *other.evidence})),
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

    def __or__(self, other: Closure) -> Closure:
        """`heard` and `reached` are looked up for both together."""
        return replace(self, erased=self.erased | other.erased, withdrawn=self.withdrawn | other.withdrawn)

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
_HOW = [bindparam(name, type_=Boolean) for name in ("confirmable", "others_stay")]


def _arrays(kinds: dict[str, Any]) -> dict[str, BindParameter[Any]]:
    return {name: bindparam(name, type_=ARRAY(kind)) for name, kind in kinds.items()}


def _closed(*, of_users: bool = False, beside: bool = False) -> Select[Any]:
    """One row, which `closure_of_row` reads. `texts` are scopes that lose something else.

    `beside`: also what has to be known before it is deleted (`_beside`).
    """
    every = (*TAKEN, *(f"held_{name}" for name in TAKEN))
    seeds, texts = _arrays(_SEEDS), bindparam("texts", type_=ARRAY(BigInteger))
    found = func.memory.forget_closure(_AGENT, *seeds.values(), *_HOW)
    closed = select(found.table_valued(*every)).cte("closed").prefix_with("MATERIALIZED")
    both = (closed.c[name].op("||")(closed.c[f"held_{name}"]).label(name) for name in TAKEN)
    going = select(*both).cte("going")
    heard, reached = _around(going, seeds["users"] if of_users else None, seeds["scopes"].op("||")(texts))
    more = _beside(going, seeds["scopes"]) if beside else []
    if of_users and beside:
        more.append(_told_of(seeds["users"]).label("about"))
    return select(*(closed.c[name] for name in every), heard, reached, *more)


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


def _around(going: Any, users: Any, scopes: Any) -> tuple[Any, Any]:
    """The scopes of the evidence, of other sources of what is deleted, and of observations about `users`: judged again.

    Also the scopes with something derived from what any of these, or of `scopes`, holds, on all levels.
    """
    e, link, j, o = EvidenceRow, LineageRow, JudgedRow, ObservationRow
    key = func.unnest(going.c.scope_ids, going.c.seqs).table_valued("scope_id", "seq", name="key").render_derived()
    gone = select(key.c.scope_id, key.c.seq).select_from(going.join(key, true())).cte("gone")
    said = func.unnest(going.c.evidence_ids).table_valued("evidence_id", name="said").render_derived()
    parts = [
        select(e.scope_id)
        .select_from(going.join(said, true()))
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


def _given() -> Any:
    """What is deleted, from parameters."""
    return select(*(array.label(name) for name, array in _arrays(TAKEN).items())).cte("given")


def tainted_by(going: Any, scopes: Any, agent_key: Any) -> Select[Any]:
    """For each of `scopes`, and each scope whose text holds what is deleted, the first live version that holds it."""
    tainted = func.memory.tainted_versions(agent_key, scopes, going.c.scope_ids, going.c.seqs).table_valued(
        "scope_id", "version", "live"
    )
    version = func.min(tainted.c.version).label("version")
    found = select(tainted.c.scope_id, version).select_from(going.join(tainted, true()))
    return found.where(tainted.c.live).group_by(tainted.c.scope_id)


def _imported(going: Any, scopes: Any) -> CompoundSelect[Any]:
    """The hashed references of what is deleted, and of the texts of `scopes`."""
    i, m = ImportedRow, ImportedMessageRow
    gone = func.unnest(going.c.scope_ids, going.c.seqs).table_valued("scope_id", "seq").render_derived()
    theirs = func.unnest(going.c.conversation_ids, going.c.numbers)
    messages = theirs.table_valued("conversation_id", "number").render_derived()
    is_its = and_(i.agent_key == _AGENT, i.scope_id == gone.c.scope_id, i.seq == gone.c.seq)
    is_theirs = and_(
        m.agent_key == _AGENT, m.conversation_id == messages.c.conversation_id, m.number == messages.c.number
    )
    return union(
        select(i.ref_hash).select_from(going.join(gone, true()).join(i, is_its)),
        select(i.ref_hash).where(i.agent_key == _AGENT, i.scope_id == any_(scopes), i.seq.is_(None)),
        select(m.ref_hash).select_from(going.join(messages, true()).join(m, is_theirs)),
    )


def _beside(going: Any, scopes: Any) -> list[Any]:
    """`tainted`; what remains of what is touched (`kept`); the hashed references of what is deleted (`refs`)."""
    kept = func.memory.kept_beside(_AGENT, going.c.scope_ids, going.c.seqs, going.c.evidence_ids).table_valued(
        "scope_id", "seq", "reason", "users"
    )
    imported = _imported(going, scopes).subquery()
    parts = {
        "tainted": tainted_by(going, scopes, _AGENT).subquery(),
        "kept": select(*kept.c).select_from(going.join(kept, true())).subquery(),
        "refs": select(func.encode(imported.c.ref_hash, literal_column("'hex'")).label("ref")).subquery(),
    }
    return [_rows_of(part).label(name) for name, part in parts.items()]


def _told_of(users: Any) -> Any:
    """All observations about any of `users`, whoever said them, each with who said it."""
    o = ObservationRow
    of_them = select(o.scope_id, o.seq, o.related_users).where(o.agent_key == _AGENT, speaks_of(users))
    return _rows_of(of_them.subquery())


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


def _looking_around(scopes: Any, conversations: Any) -> Select[Any]:
    """Locks what will most likely be needed, `conversations` and `scopes`, and where something was made of these."""
    begun = scopes.cte("begun")
    theirs = select(begun.c.scope_id).union(reached_from(select(begun.c.scope_id), _its_agent()))
    return locking_found(conversations, theirs)


def _its_agent() -> Any:
    return select(AgentRow.agent_key).where(AgentRow.agent_id == bindparam("agent_id", type_=Text)).scalar_subquery()


def _around_one() -> Select[Any]:
    """As `_looking_around`, one observation."""
    e, scope_id = EvidenceRow, bindparam("scope_id", type_=BigInteger)
    talks = select(e.conversation_id).where(
        e.agent_key == _its_agent(),
        e.scope_id == scope_id,
        e.seq == bindparam("seq", type_=Integer),
        e.conversation_id.is_not(None),
    )
    return _looking_around(select(scope_id.label("scope_id")), talks)


def _around_conversation() -> Select[Any]:
    """As `_looking_around`, a conversation and what was said there; `owner` is that of its own scope."""
    e, o, s = EvidenceRow, ObservationRow, ScopeRow
    conversation = bindparam("conversation_id", type_=Text)
    scopes = union(
        select(s.scope_id).where(s.agent_key == _its_agent(), s.owner == bindparam("owner", type_=Text)),
        select(e.scope_id).where(e.agent_key == _its_agent(), e.conversation_id == conversation, e.number.is_not(None)),
        select(o.scope_id).where(o.agent_key == _its_agent(), *stated_in(conversation)),
    )
    return _looking_around(scopes, select(conversation))


def _around_user() -> Select[Any]:
    """As `_looking_around`, all of a user: theirs, what they have said, where they spoke, and what is about them."""
    c, e, o = ConversationRow, EvidenceRow, ObservationRow
    users = _ids_of(_its_agent(), "user_id")
    talks = select(c.conversation_id).where(took_part(_its_agent(), users))
    scopes = union(
        _owned_by(_its_agent(), users),
        select(e.scope_id).where(e.agent_key == _its_agent(), e.user_id == any_(users)),
        select(o.scope_id).where(o.agent_key == _its_agent(), speaks_of(users)),
    )
    return _looking_around(scopes, talks)


def _ids_of(agent_key: Any, name: str) -> Any:
    """All ids of the user whose id is that parameter, as an array."""
    ids = func.memory.user_ids(agent_key, bindparam(name, type_=Text)).table_valued("user_id")
    return func.array(select(ids.c.user_id).order_by(ids.c.user_id).scalar_subquery(), type_=ARRAY(Text))


def _owned_by(agent_key: Any, users: Any) -> Select[Any]:
    """The scopes of these users alone, and those of the conversations in which nobody else spoke."""
    c, s = ConversationRow, ScopeRow
    user = func.unnest(users).column_valued("user_id")
    theirs = (select(literal(kind).op("||")(user)) for kind in ("u:", "e:"))
    alone = select(literal("s:").op("||")(c.conversation_id)).where(*_alone_in(agent_key, users))
    return select(s.scope_id).where(s.agent_key == agent_key, s.owner.in_(union_all(*theirs, alone)))


def _alone_in(agent_key: Any, users: Any) -> tuple[ColumnElement[bool], ...]:
    """Who was forgotten is no participant any more; what a hold has kept is still theirs."""
    c = ConversationRow
    somebodys = or_(c.participants != cast([], ARRAY(Text)), c.user_id == any_(users))
    return took_part(agent_key, users, "<@"), somebodys


def _begun_by_user() -> Select[Any]:
    """One row: a user's ids, their scopes, where nobody else spoke and where they did; with `about` what is of them alone."""
    c, o = ConversationRow, ObservationRow
    known = select(_ids_of(_AGENT, "user_id").label("users")).cte("known").prefix_with("MATERIALIZED")
    users = cast(select(known.c.users).scalar_subquery(), ARRAY(Text))
    keys = (
        select(key)
        .where(o.agent_key == _AGENT, speaks_of(users), o.subjects.op("<@")(users))
        .where(bindparam("about", type_=Boolean))
        .order_by(o.scope_id, o.seq)
        for key in (o.scope_id, o.seq)
    )
    alone = select(c.conversation_id).where(*_alone_in(_AGENT, users)).order_by(c.conversation_id)
    attended = select(c.conversation_id).where(took_part(_AGENT, users)).order_by(c.conversation_id)
    owned = _owned_by(_AGENT, users).order_by("scope_id")
    parts = zip(
        ("scopes", "conversations", "attended", "scope_ids", "seqs"), (owned, alone, attended, *keys), strict=True
    )
    return select(known.c.users, *(func.array(part.scalar_subquery()).label(name) for name, part in parts))


def stated_in(conversation_id: Any) -> tuple[ColumnElement[bool], ...]:
    """What the host stated in the conversation, or another store had of it, without a message."""
    o = ObservationRow
    kinds: Any = bindparam("kinds", ("observe", "import"), expanding=True, literal_execute=True)  # as the index says it
    return (o.conversation_id == conversation_id, o.source_kind.in_(kinds))


def _begun_by() -> Select[Any]:
    """One row: the scopes of a conversation, what was stated in it, and whether it has begun (`is_there`)."""
    c, o, s = ConversationRow, ObservationRow, ScopeRow
    own = select(s.scope_id).where(s.agent_key == _AGENT, s.owner == bindparam("owner", type_=Text))
    stated = stated_in(bindparam("conversation_id", type_=Text))
    keys = (
        select(key).where(o.agent_key == _AGENT, *stated).order_by(o.scope_id, o.seq) for key in (o.scope_id, o.seq)
    )
    parts = zip(("scopes", "scope_ids", "seqs"), (own.order_by(s.scope_id), *keys), strict=True)
    its_row = select(c.epoch).where(
        c.agent_key == _AGENT, c.conversation_id == bindparam("conversation_id", type_=Text)
    )
    return select(
        *(func.array(part.scalar_subquery()).label(name) for name, part in parts), its_row.exists().label("is_there")
    )


CLOSED, CLOSED_OF_USERS = _closed(), _closed(of_users=True)
CLOSED_BESIDE, CLOSED_OF_USERS_BESIDE = _closed(beside=True), _closed(of_users=True, beside=True)
CLOSED_IF_THERE = CLOSED_BESIDE.where(_is_there())
AROUND_ONE, AROUND_CONVERSATION, AROUND_USER = _around_one(), _around_conversation(), _around_user()
BEGUN_BY, BEGUN_BY_USER = _begun_by(), _begun_by_user()
ABOUT = select(_told_of(bindparam("users", type_=ARRAY(Text))))
HEARD = select(*_around(_given(), None, cast([], ARRAY(BigInteger))))
_scopes = bindparam("scopes", type_=ARRAY(BigInteger))
TAINTED = tainted_by(_given(), _scopes, _AGENT).order_by("scope_id")
BESIDE = select(*_beside(_given(), _scopes))
ALL_IMPORTED = union(
    *(select(table.ref_hash).where(table.agent_key == _AGENT) for table in (ImportedRow, ImportedMessageRow))
)
