"""Whom an agent has forgotten: what they said, and what was made of it, before that isn't imported; what others said is.

A text of their own scope isn't either, whenever it was written: nobody knows how old its sentences are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from memory_sql.domain.people import ForgottenKind
from memory_sql.importers.drafts import DuplicateDraft, MessageDraft, ObservationDraft, RowDraft, ScopeDraft

Named = tuple[ForgottenKind, str]


@dataclass(frozen=True, slots=True)
class Gone:
    """When each of these was forgotten. `agent_at`: when the agent itself was; None: it wasn't."""

    ids: Mapping[Named, datetime] = field(default_factory=dict)
    agent_at: datetime | None = None

    def __bool__(self) -> bool:
        return bool(self.ids) or self.agent_at is not None

    def group(self, group_id: str) -> bool:
        return ("group", group_id) in self.ids

    def joining(self, user_ids: Iterable[str]) -> tuple[str, ...]:
        """Without who was forgotten: nobody knows when they joined."""
        return tuple(user for user in user_ids if ("user", user) not in self.ids)

    def refs(self, draft: ScopeDraft, rows: Iterable[RowDraft]) -> Iterator[str]:
        """The references in this scope that aren't imported."""
        if self._is_of_them(draft) or self.agent_at is not None:
            yield from draft.legacy_refs
        yield from (row.legacy_ref for row in rows if self._left(draft, row) is None)

    def rows(self, draft: ScopeDraft, rows: Iterable[RowDraft], dropped: Collection[str]) -> Iterator[RowDraft]:
        """With those alone whose word counts; of what repeats something `dropped`, the first stands in its place."""
        first = dict[str, str]()
        for row in rows:
            users = self._left(draft, row)
            if users is None:
                yield row
                continue
            kept = row if users == row.related_users else row._replace(related_users=users)
            if not isinstance(kept, DuplicateDraft) or kept.of not in dropped:
                yield kept
            elif kept.of in first:
                yield kept._replace(of=first[kept.of])
            else:
                first[kept.of] = kept.legacy_ref
                yield kept.alone._replace(related_users=users)

    def messages(self, conversation_id: str, said: Iterable[MessageDraft], is_answer: bool) -> tuple[set[str], bool]:
        """The ids of those that aren't imported: theirs, and the agent's answers to them.

        `is_answer`: whether the first ones answer them; also returned, of those that come next.
        """
        going = set[str]()
        for message in said:
            if message.user_id is not None:
                is_answer = self._is_gone(("user", message.user_id), message.said_at)
            if is_answer or self._is_gone(("conversation", conversation_id), message.said_at):
                going.add(message.message_id)
        return going, is_answer

    def _left(self, draft: ScopeDraft, row: RowDraft) -> tuple[str, ...] | None:
        """The users whose word it still is; None: it isn't imported."""
        its: ObservationDraft = row.alone if isinstance(row, DuplicateDraft) else row
        talk = its.conversation_id
        if talk is not None and self._is_gone(("conversation", talk), its.observed_at):
            return None
        if (self._is_of_them(draft) and "#" in row.legacy_ref) or self._is_gone(None, its.observed_at):
            return None
        users = row.related_users or ((draft.owner_id,) if draft.kind == "individual" and draft.owner_id else ())
        left = tuple(user for user in users if not self._is_gone(("user", user), its.observed_at))
        return None if users and not left else left if row.related_users else row.related_users

    def _is_of_them(self, draft: ScopeDraft) -> bool:
        return draft.kind == "individual" and ("user", draft.owner_id or "") in self.ids

    def _is_gone(self, named: Named | None, at: datetime) -> bool:
        times = [self.agent_at, self.ids.get(named) if named else None]
        return any(time is not None and at <= time for time in times)
