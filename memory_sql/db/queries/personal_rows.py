"""A person's data, as queries: one for each type of row, and how a row becomes a line of an export.

It consists of their own scopes with all that is in them; what they said, wherever it is remembered; the conversations that
they took part in, with the agent's answers if nobody else did; what was derived from these in wider scopes; and what was
done with any of it. Nothing of other people is included: of what also belongs to others, only the person's part is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from sqlalchemy import Select, Text, and_, case, cast, false, func, or_, select, true, tuple_
from sqlalchemy.orm import aliased

from memory_sql.db.models import (
    ConsolidationRow,
    ConversationRow,
    EpisodeRow,
    EventRow,
    EvidenceRow,
    HoldRow,
    LineageRow,
    MemberRow,
    MessageRow,
    ObservationEpisodeRow,
    ObservationRow,
    ObservationStateRow,
    PromptRow,
    RunRow,
    ScopeRow,
    UserAliasRow,
    columns_of,
)
from memory_sql.db.queries.personal_counts import feedback, links, retrieved
from memory_sql.db.queries.personal_keys import KEY, SCOPE, PersonalKeys, source_of
from memory_sql.db.scope_rows import scope_ref
from memory_sql.domain.exports import (
    ExportedAlias,
    ExportedConversation,
    ExportedDerivation,
    ExportedEpisode,
    ExportedEvent,
    ExportedEvidence,
    ExportedFeedback,
    ExportedHold,
    ExportedLink,
    ExportedMembership,
    ExportedMessage,
    ExportedObservation,
    ExportedPrompt,
    ExportedRun,
    ExportedScope,
    ExportedVersion,
    ExportLine,
    export_uuid,
)
from memory_sql.domain.ids import observation_id

Rows = Select[*tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one type, in order, and how a row becomes a line. `counted`: a cheaper query for as many."""

    rows: Rows
    line: Callable[[Any], ExportLine]
    counted: Rows | None = None


class PersonalRows:
    """A person's data, as queries. `ids`: all ids of the person."""

    def __init__(self, agent_id: str, agent_key: int, ids: Sequence[str]) -> None:
        self._agent_id = agent_id
        self._ids = list(ids)
        self._keys = PersonalKeys(agent_key, ids)
        self._in_agent = self._keys.in_agent

    def parts(self) -> dict[str, Part]:
        """The parts by type, in the order of an export."""
        return {
            "alias": self._aliases(),
            "hold": self._holds(),
            "membership": self._memberships(),
            "conversation": self._conversations(),
            "episode": self._episodes(),
            "message": self._messages(),
            "scope": self._scopes(),
            "prompt": self._prompts(),
            "version": self._versions(),
            "observation": self._observations(),
            "derivation": self._derivations(),
            "run": self._runs(),
            "event": self._events(),
        }

    def _aliases(self) -> Part:
        a = UserAliasRow
        rows = (
            select(*columns_of(a, ExportedAlias.model_fields))
            .where(
                self._in_agent(a),
                a.withdrawn_by.is_(None),
                or_(a.user_id.in_(self._ids), a.into_user_id.in_(self._ids)),
            )
            .order_by(a.created_at, a.user_id)
        )
        return Part(rows, lambda row: ExportedAlias(**row._mapping))

    def _holds(self) -> Part:
        h = HoldRow
        public_id = func.concat("o", self._keys.said.c.scope_id, "-", self._keys.said.c.seq)
        covered = or_(
            and_(h.kind == "user", h.target.in_(self._ids)),
            and_(h.kind == "conversation", h.target.in_(self._keys.own_conversations())),
            and_(h.kind == "observation", h.target.in_(select(public_id))),
        )
        rows = select(*columns_of(h, ExportedHold.model_fields)).where(self._in_agent(h), covered).order_by(h.hold_id)
        return Part(rows, lambda row: ExportedHold(**row._mapping))

    def _memberships(self) -> Part:
        m = MemberRow
        rows = (
            select(func.substr(ScopeRow.owner, 3).label("group_id"), *columns_of(m, ExportedMembership.model_fields))
            .join(ScopeRow, and_(ScopeRow.agent_key == m.agent_key, ScopeRow.scope_id == m.scope_id))
            .where(self._in_agent(m), m.user_id.in_(self._ids))
            .order_by(m.joined_at, m.scope_id, m.user_id)
        )
        return Part(rows, lambda row: ExportedMembership(**row._mapping))

    def _conversations(self) -> Part:
        s = ConversationRow
        columns = (s.conversation_id, s.group_ids, s.time_zone, s.excluded, s.created_at, s.last_activity_at)
        rows = (
            select(*columns, s.user_id, s.participants, self._keys.is_alone().label("alone"))
            .where(self._in_agent(s), or_(s.user_id.in_(self._ids), self._keys.overlap(s.participants)))
            .order_by(s.created_at, s.conversation_id)
        )
        return Part(rows, self._session)

    def _session(self, row: Any) -> ExportedConversation:
        users = self._mine([row.user_id, *row.participants])
        given = {name: row._mapping[name] for name in row._mapping if name not in ("user_id", "participants")}
        return ExportedConversation(**given, user_ids=users)

    def _episodes(self) -> Part:
        e, s = EpisodeRow, ConversationRow
        ids = ("e" + cast(e.episode_id, Text)).label("id"), ("e" + cast(e.trace_id, Text)).label("trace")
        rows = (
            select(*ids, *columns_of(e, ExportedEpisode.model_fields))
            .join(s, and_(s.agent_key == e.agent_key, s.conversation_id == e.conversation_id))
            .where(self._in_agent(e), self._keys.took_part())
            .order_by(e.conversation_id, e.episode_id)
        )
        return Part(rows, lambda row: ExportedEpisode(**row._mapping))

    def _messages(self) -> Part:
        m = MessageRow
        columns = columns_of(m, ExportedMessage.model_fields)
        answers = and_(m.user_id.is_(None), m.conversation_id.in_(self._keys.own_conversations()))
        rows = (
            select(*columns)
            .where(self._in_agent(m), m.withdrawn_by.is_(None), or_(m.user_id.in_(self._ids), answers))
            .order_by(m.conversation_id, m.number)
        )
        return Part(rows, lambda row: ExportedMessage(**row._mapping))

    def _scopes(self) -> Part:
        own = self._keys.scopes
        s = self._keys.each(ScopeRow, own, SCOPE)
        columns = s.consolidation, *columns_of(s, ExportedScope.model_fields)
        rows = select(*_scope(s), *columns).select_from(own).join(s, true()).order_by(s.scope_id)
        return Part(rows, lambda row: ExportedScope(**self._placed(row), **_named(row, columns)))

    def _prompts(self) -> Part:
        own = self._keys.scopes
        s, p = (self._keys.each(table, own, SCOPE) for table in (ScopeRow, PromptRow))
        columns = [column for column in columns_of(p, ExportedPrompt.model_fields) if column.key != "name"]
        rows = (
            select(*_scope(s), p.name.label("prompt"), *columns)
            .select_from(own)
            .join(p, true())
            .join(s, true())
            .order_by(p.scope_id, p.name, p.version)
        )
        return Part(
            rows,
            lambda row: ExportedPrompt(
                **self._placed(row, "p", row.prompt, row.version), name=row.prompt, **_named(row, columns)
            ),
        )

    def _versions(self) -> Part:
        own = self._keys.scopes
        s, c = (self._keys.each(table, own, SCOPE) for table in (ScopeRow, ConsolidationRow))
        columns = columns_of(c, ExportedVersion.model_fields)
        rows = (
            select(*_scope(s), *columns)
            .select_from(own)
            .join(c, true())
            .join(s, true())
            .order_by(c.scope_id, c.version)
        )
        return Part(rows, lambda row: ExportedVersion(**self._placed(row, "v", row.version), **_named(row, columns)))

    def _observations(self) -> Part:
        said = self._keys.said
        tables = (ObservationRow, ObservationStateRow, ObservationEpisodeRow)
        o, state, n = (self._keys.each(table, said, KEY) for table in tables)
        s = self._keys.each(ScopeRow, said, SCOPE)
        own = said.c.own
        rows = (
            select(
                *_scope(s),
                *_of(o, *_OBSERVED, *_ABOUT),
                o.related_users,
                o.subjects,
                o.terms,
                *(("e" + cast(n.episode_id, Text)).label("episode"), n.topics),
                o.metadata_.label("about"),
                o.kind.label("sort"),
                o.dates,
                own,
                func.coalesce(state.status, "active").label("status"),
                func.coalesce(state.verification, "unverified").label("verification"),
                func.coalesce(state.stage, "candidate").label("stage"),
                case((o.cold, "cold"), else_="hot").label("tier"),
                func.coalesce(state.policy, "durable").label("policy"),
                case((state.status == "superseded", state.superseded_by)).label("superseded_by"),
                *(state.resolved, state.resolved_at, state.expires_at),
                self._evidence(said).label("evidence"),
                case((own, retrieved(o))).label("retrieved"),
                case((own, feedback(o))).label("feedback"),
                case((own, links(o))).label("links"),
            )
            .select_from(said)
            .join(o, true())
            .join(s, true())
            .outerjoin(state, true())
            .outerjoin(n, true())
            .order_by(o.scope_id, o.seq)
        )
        return Part(rows, self._observation, counted=select(said.c.seq))

    def _observation(self, row: Any) -> ExportedObservation:
        users = self._mine(row.related_users)
        shared = not row.own and len(users) < max(len(row.related_users), 1)
        about = NOTHING if shared else {name: getattr(row, name) for name in _ABOUT}
        return ExportedObservation(
            **self._placed(row, "o", row.seq),
            **{name: getattr(row, name) for name in _OBSERVED},
            **about,
            id=observation_id(row.scope_id, row.seq),
            shared=shared,
            user_ids=users,
            subjects=self._mine(row.subjects),
            terms=() if shared else tuple(row.terms.splitlines()),
            metadata={} if shared else row.about,
            episode=row.episode,
            topics=() if shared else tuple(row.topics or ()),
            kind=row.sort,
            dates=_days(row.dates),
            **{name: getattr(row, name) for name in _STATE},
            evidence=tuple(ExportedEvidence(**item) for item in row.evidence or ()),
            retrieved=row.retrieved or {},
            feedback=tuple(ExportedFeedback(**item) for item in row.feedback or ()),
            links=tuple(ExportedLink(**item) for item in row.links or ()),
        )

    def _evidence(self, said: Any) -> Any:
        """The evidence of an observation: the person's own, and in their own scopes also what names no user."""
        # By the observation's key: by the user, all that they ever said might be read for each.
        e = self._keys.each(EvidenceRow, said, KEY)
        m = self._keys.each(MessageRow, e, ("conversation_id", "number"))
        item = func.jsonb_build_object(
            *("conversation_id", e.conversation_id, "message_id", m.message_id),
            *("user_id", e.user_id, "created_at", e.created_at),
            *("said_at", e.said_at, "confidence", e.confidence),
        )
        return (
            select(func.jsonb_agg(item).aggregate_order_by(e.evidence_id))
            .select_from(e)
            .outerjoin(m, true())
            .where(e.withdrawn_by.is_(None), or_(e.user_id.in_(self._ids), and_(said.c.own, e.user_id.is_(None))))
            .correlate(said)
            .scalar_subquery()
        )

    def _derivations(self) -> Part:
        line, said, derived = LineageRow, self._keys.said, self._keys.derived
        o, s = self._keys.each(ObservationRow, derived, KEY), self._keys.each(ScopeRow, derived, SCOPE)
        theirs = select(said.c.scope_id, said.c.seq).union(select(derived.c.scope_id, derived.c.seq))
        of_it = (self._in_agent(line), line.scope_id == o.scope_id, line.seq == o.seq)
        source = func.concat("o", line.source_scope_id, "-", line.source_seq)
        foreign = self._keys.foreign_rows(theirs)
        rows = (
            select(
                *_scope(s),
                o.seq,
                o.content,
                o.observed_at,
                o.created_at,
                tuple_(o.scope_id, o.seq).in_(select(foreign.c.scope_id, foreign.c.seq)).label("shared"),
                select(func.array_agg(source).aggregate_order_by(line.source_scope_id, line.source_seq))
                .where(*of_it, source_of(line).in_(theirs).is_(true()))  # made once, not for each observation
                .correlate(o)
                .scalar_subquery()
                .label("sources"),
            )
            .select_from(derived)
            .join(o, true())
            .join(s, true())
            .where(~self._keys.is_withdrawn(o))
            .order_by(o.scope_id, o.seq)
        )
        return Part(rows, self._derivation)

    def _derivation(self, row: Any) -> ExportedDerivation:
        return ExportedDerivation(
            **self._placed(row, "o", row.seq),
            id=observation_id(row.scope_id, row.seq),
            shared=row.shared,
            content=None if row.shared else row.content,
            observed_at=row.observed_at,
            created_at=row.created_at,
            sources=tuple(row.sources),
        )

    def _runs(self) -> Part:
        talks, own = self._keys.alone, self._keys.scopes
        of_talks, of_scopes = (
            self._keys.each(RunRow, talks, ("conversation_id",)),
            self._keys.each(RunRow, own, SCOPE),
        )
        r = aliased(
            RunRow,
            select(of_talks)
            .select_from(talks)
            .join(of_talks, true())
            .union_all(select(of_scopes).select_from(own).join(of_scopes, true()))
            .subquery(),
        )
        columns = columns_of(r, ExportedRun.model_fields)
        rows = select(*columns).order_by(r.run_id)
        return Part(rows, lambda row: ExportedRun(**row._mapping))

    def _events(self) -> Part:
        e, said = EventRow, self._keys.said
        about = or_(
            e.scope_id.in_(self._keys.own_scopes()),
            tuple_(e.scope_id, e.seq).in_(select(said.c.scope_id, said.c.seq)),
            e.conversation_id.in_(self._keys.own_conversations()),
            e.detail["user_id"].astext.in_(self._ids),
            e.detail["into_user_id"].astext.in_(self._ids),
        )
        columns = columns_of(e, ExportedEvent.model_fields)
        rows = (
            select(*columns, func.coalesce(about, false()).label("about"))
            .where(self._in_agent(e), or_(about, e.actor.in_(self._ids)), ~self._keys.is_withdrawn(e))
            .order_by(e.event_id)
        )
        return Part(rows, lambda row: self._event(_named(row, columns), row.about))

    def _event(self, event: dict[str, Any], about: bool) -> ExportedEvent:
        """If the event is about others' data, only the fact that they did it is included."""
        event["actor"] = event["actor"] if event["actor"] in self._ids else None
        return ExportedEvent(**event if about else {**event, "reason": None, "detail": {}})

    def _mine(self, users: Sequence[str]) -> tuple[str, ...]:
        return tuple(user for user in dict.fromkeys(users) if user in self._ids)

    def _placed(self, row: Any, *place: object) -> dict[str, Any]:
        return {
            "uuid": export_uuid(self._agent_id, row.owner, row.name, *place),
            "scope": scope_ref(row.scope_id, row.kind, row.owner, row.name),
        }


_OBSERVED = (
    *(
        "seq",
        "content",
        "observed_at",
        "given_at",
        "said_again_at",
        "created_at",
        "until",
        "source_kind",
        "category",
        "confidence",
        "importance",
        "classified_by",
        "sensitivity",
        "no_propagate",
        "confidential",
        "categories",
    ),
)
NOTHING = {
    "conversation_id": None,
    "speaker": None,
    "message_ids": (),
    "tags": (),
    "fact_key": None,
    "legacy_ref": None,
}
_STATE = (
    *("status", "verification", "stage", "tier", "policy"),
    *("superseded_by", "resolved", "resolved_at", "expires_at"),
)
_ABOUT = ("conversation_id", "speaker", "message_ids", "tags", "fact_key", "legacy_ref")


def _scope(s: Any) -> tuple[Any, ...]:
    return s.scope_id, s.kind, s.owner, s.name


def _of(row: Any, *names: str) -> list[Any]:
    return [getattr(row, name) for name in names]


def _named(row: Any, columns: Sequence[Any]) -> dict[str, Any]:
    return {column.key: row._mapping[column.key] for column in columns}


def _days(ranges: Any) -> tuple[str, ...]:
    """`2026-03-02`, or `2026-03-02/2026-03-05`, which includes the last day; `..` if a range has no end."""
    return tuple(_span(item.lower, item.upper) for item in ranges or ())


def _span(first: date | None, after: date | None) -> str:
    last = None if after is None else after - timedelta(days=1)
    return str(first) if first == last and first is not None else f"{first or '..'}/{last or '..'}"
