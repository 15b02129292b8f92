"""Messages → the buffer of a conversation: screened, weighed, stored once each."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from memory_sql.config import Secrets, Settings
from memory_sql.db import Session
from memory_sql.db.repositories.additions import OTHER_SECRETS, add_messages
from memory_sql.domain.adding import AddResult, FormationOutcome, RefusedMessage
from memory_sql.domain.arguments import id_of, ids_of, listed, optional_id, text_of
from memory_sql.domain.ids import Id
from memory_sql.domain.limits import MOST_MESSAGES, limited
from memory_sql.domain.message_shapes import MessageLike, as_list
from memory_sql.domain.messages import Message
from memory_sql.errors import (
    BudgetError,
    BusyError,
    ConfigurationError,
    InputError,
    InvalidMessageError,
    MemorySQLError,
    TooLargeError,
)
from memory_sql.formation import intake
from memory_sql.languages.dates import zone_of
from memory_sql.languages.words import search_extra

if TYPE_CHECKING:
    from memory_sql.domain.results import FormResult


class Incoming(NamedTuple):
    """One call of `add`, checked. `call` is its idempotency key.

    `places` are those of the messages in the call, from 0; the other places are those of the refused, and of the `outdated`:
    so many came again in the same call with another text, which replaces theirs.
    """

    agent_id: str
    conversation_id: str
    user_id: str
    group_ids: Sequence[str]
    call: str | None
    messages: Sequence[Message]
    places: Sequence[int]
    refused: Sequence[RefusedMessage]
    excluded: bool | None
    time_zone: str | None
    outdated: int = 0

    @property
    def positions(self) -> list[int]:
        """Of what the database is given, in the call."""
        return sorted([*self.places, *(one.position for one in self.refused)])


def incoming(
    messages: Iterable[MessageLike] | MessageLike,
    settings: Settings,
    *,
    agent_id: Id,
    user_id: Id,
    conversation_id: Id,
    group_ids: Iterable[Id],
    idempotency_key: Id | None,
    excluded: bool | None,
    time_zone: str | None,
    replace: bool = False,
) -> Incoming:
    """`replace`: of messages with one id the last counts. Raises `InputError`; `TooLargeError` where all are too long."""
    if replace and idempotency_key is not None:
        raise InputError("replace=True goes by the ids of messages; leave out idempotency_key=")
    accepted, refused = _parsed(messages, settings.message_max_characters)
    given = len(accepted)
    if replace:
        last = {message.id: place for place, message in accepted.items()}
        accepted = {place: one for place, one in accepted.items() if one.id is None or last[one.id] == place}
    return Incoming(
        agent_id=id_of("agent_id", agent_id),
        user_id=id_of("user_id", user_id),
        conversation_id=id_of("conversation_id", conversation_id),
        group_ids=ids_of("group_ids", group_ids),
        call=optional_id("idempotency_key", idempotency_key),
        excluded=excluded,
        time_zone=None if time_zone is None else zone_of(text_of("time_zone", time_zone)).key,
        messages=list(accepted.values()),
        places=list(accepted),
        refused=refused,
        outdated=given - len(accepted),
    )


def _parsed(
    messages: Iterable[MessageLike] | MessageLike, most: int
) -> tuple[dict[int, Message], list[RefusedMessage]]:
    """The messages by their places, and those that are too long: the others are stored without them."""
    accepted: dict[int, Message] = {}
    refused: list[RefusedMessage] = []
    for position, given in enumerate(limited("messages", listed("messages", as_list(messages)), MOST_MESSAGES)):
        message = Message.parse(given, position)
        if len(message.content) <= most:
            accepted[position] = message
        else:
            refused.append(RefusedMessage(position=position, id=message.id, size=len(message.content), limit=most))
    if refused and not accepted:
        raise TooLargeError(f"message {refused[0].position}", refused[0].size, most)
    return accepted, refused


async def store(
    session: Session,
    said: Incoming,
    given: Sequence[Mapping[str, Any]],
    screened: intake.Screened | None,
    settings: Settings,
    now: datetime,
    replaced: Sequence[str] = (),
    believed: Secrets | None = None,
) -> AddResult | None:
    """What was accepted. `given`: the messages as the database takes them, `screened` or as they came.

    None, and nothing is stored, where a secret was found and the agent's own setting isn't what it is `believed` to be.
    Raises `InvalidMessageError` where the idempotency key came before with another message.
    """
    added = await add_messages(
        session,
        settings,
        agent_id=said.agent_id,
        conversation_id=said.conversation_id,
        user_id=said.user_id,
        group_ids=said.group_ids,
        messages=given,
        now=now,
        excluded=said.excluded,
        time_zone=said.time_zone,
        secrets=believed if screened is not None and screened.found else None,
        next_id=None if said.call is None else _keyed(said.call, len(said.messages) + len(said.refused)),
    )
    if added.differs == OTHER_SECRETS:
        return None
    if added.differs is not None:
        raise InvalidMessageError(added.differs, "this idempotency key was used before with another message")
    return AddResult(
        conversation_id=said.conversation_id,
        accepted=added.accepted,
        duplicates=len(said.messages) + said.outdated - added.accepted,
        cleaned=sum(bool(message.cleaned) for message in said.messages),
        masked=0 if screened is None else len(screened.found),
        replaced=tuple(replaced),
        differing=tuple(added.differing or ()),
        forgotten=tuple(added.forgotten or ()),
        refused=tuple(said.refused),
        trigger=added.due_reason if added.due_at and added.due_at <= now else None,
        formation=added.formation,
        empty_groups=tuple(added.empty_groups or ()),
    )


async def formed(form: Callable[[], Awaitable[FormResult]], added: AddResult) -> AddResult:
    """With what came of forming the conversation; the error of one that fails has what was added."""
    try:
        result = await form()
    except MemorySQLError as error:
        outcome = next((outcome for kind, outcome in _WHY_NOT.items() if isinstance(error, kind)), "failed")
        error.added = added.model_copy(update={"formation": outcome})
        raise
    run_id = result.run_ids[-1] if result.run_ids else None
    came_of_it: FormationOutcome = "formed" if result.observations else "nothing"
    return added.model_copy(update={"formation": came_of_it, "run_id": run_id, "observations": result.observations})


_WHY_NOT: Mapping[type[MemorySQLError], FormationOutcome] = {
    BusyError: "busy",
    ConfigurationError: "no_model",
    BudgetError: "no_budget",
}


def in_place(said: Incoming, messages: Sequence[Message]) -> list[dict[str, Any]]:
    """As the database takes them, in the order of the call; of a refused one only the id."""
    by_place = {
        place: buffered(
            intake.weigh(message),
            _known_as(message.id, said.call, place),
            message.user_id or (said.user_id if message.role == "user" else None),
        )
        for place, message in zip(said.places, messages, strict=True)
    } | {one.position: {"refused": True, **_known_as(one.id, said.call, one.position)} for one in said.refused}
    return [by_place[place] for place in said.positions]


def _known_as(message_id: str | None, call: str | None, position: int) -> dict[str, Any]:
    """Without an id of its own a message is known by its place in the call that an idempotency key names, else new."""
    if message_id is not None or call is None:
        return {"id": message_id or uuid.uuid4().hex, "keyed": False}
    return {"id": _keyed(call, position), "keyed": True}


def _keyed(call: str, position: int) -> str:
    """No host's id: what stands between key and position can't be in either."""
    return hashlib.sha256(f"{call}\0{position}".encode()).hexdigest()[:32]


def buffered(weighed: intake.Weighed, known_as: Mapping[str, Any], user_id: str | None) -> dict[str, Any]:
    """A message as the database takes it. `known_as`: its `id`, and whether that was made from an idempotency key."""
    message = weighed.message
    return {
        **known_as,
        "role": message.role,
        "user_id": user_id,
        "speaker": message.name,
        "search_extra": search_extra(message.content),
        "content": message.content,
        "cleaned": list(message.cleaned),
        "weight": weighed.weight,
        "eligible": weighed.eligible,
        "signal": weighed.signal,
        "said_at": message.created_at.isoformat() if message.created_at else None,
    }
