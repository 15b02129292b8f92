"""The calls of the legacy system, answered by this memory.

Several steps there are one transaction here: `extract_observations` stores what it extracts, and `save_observations`
finds it already stored. So nothing is lost between the two, and nothing is stored twice.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from typing import Any

from memory_sql.backends.hosts import HostSession, field_of, id_of_host, read_fields, user_id_of
from memory_sql.backends.places import agent_of, is_due, place_of
from memory_sql.config import ContextFormat
from memory_sql.domain.messages import Message
from memory_sql.domain.observations import Observation
from memory_sql.domain.results import AddResult
from memory_sql.errors import InputError, InvalidMessageError
from memory_sql.languages.text import clean
from memory_sql.memory import Memory

log = logging.getLogger("memory_sql")

_BATCH = 1000  # messages in one call
_PAGE = 500
_MOST_HITS = 100  # of a search
_PARTS = 4  # of the id of a conversation made from a text, 8 characters each


class SqlBackend:
    """This memory as the backend of a host that was written for the legacy system.

    `read_session` reads the host's session; None: the session's own fields are read. `format` is the layout of contexts;
    None: the layout in the agent's settings. `agent_id` is for calls that name no agent.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        read_session: Callable[[Any], Awaitable[HostSession]] | None = None,
        format: ContextFormat | None = "legacy",
        agent_id: str | None = None,
    ) -> None:
        self._memory = memory
        self._read_session = read_session or read_fields
        self._format = format
        self._agent_id = agent_id

    # Reading

    async def assemble_memory_context(
        self,
        session: Any,
        agent: Any,
        user: Any,
        force_refresh: bool = False,
        reason: str = "unknown",
        skip_save: bool = False,
        instrumentation: Any = None,
        *,
        user_message: str | None = None,
    ) -> str:
        """The context for this user's turn.

        It is never cached, and reading stores nothing. `reason` and `instrumentation` aren't used: `memory.admin.stats`
        has the counts. With `user_message` single observations may be retrieved too.
        """
        if isinstance(force_refresh, str):  # the position of the message in a later version of the calls
            raise InputError("pass the message by name: user_message")
        context = await self._memory.context(
            agent_id=id_of_host(agent),
            user_id=user_id_of(user),
            conversation_id=None if session is None else id_of_host(session),
            message=user_message,
            format=self._format,
        )
        return str(context)

    async def retrieve_observations(
        self,
        user_message: str,
        scope_ids: Sequence[Any],
        limit: int = 5,
        *,
        user: Any = None,
        agent_id: Any = None,
    ) -> list[Observation]:
        """The observations that the message finds in these scopes, best first, as far as the user may see them.

        The search is made for `user`, or for the owner if one of the scopes is a user's own. Raises `InputError` if
        neither is given.
        """
        agent = self._agent(scope_ids[0] if scope_ids else None, agent_id)
        refs = [(await place_of(self._memory, scope, agent)).ref for scope in scope_ids]
        owners = [ref.owner_id for ref in refs if ref.kind == "individual" and ref.owner_id is not None]
        if user is None and not owners:
            raise InputError("the asking user can't be found out: pass user")
        if not refs:
            return []
        found = await self._memory.search(
            user_message,
            agent_id=agent,
            user_id=owners[0] if user is None else user_id_of(user),
            top_k=_MOST_HITS,
            messages=0,
        )
        wanted = {ref.id for ref in refs}
        return list(islice((hit.observation for hit in found.results if hit.observation.scope.id in wanted), limit))

    # Writing

    async def maybe_form_memories(self, agent_id: Any, session: Any, agent: Any) -> bool:
        """Stores new messages of the session and forms observations if it is due. Returns whether it did.

        Otherwise the session becomes due when the conversation falls silent, and a `Worker` or `run_due` forms it then.
        If the model fails, the messages are stored and the session stays due.
        """
        added = await self._store(id_of_host(agent_id), session, wait=True)
        return added is not None and added.run_id is not None

    async def form_memories(
        self, agent_id: Any, session: Any, agent: Any, conversation_text: str | None = None, char_counts: Any = None
    ) -> bool:
        """Stores new messages of the session and forms all that are unformed. Returns whether there were any.

        Only messages are formed; `conversation_text`, which is made of them, is ignored. Raises `InputError` if there is
        such a text but no message, since the text would be lost.
        """
        known = id_of_host(agent_id)
        added = await self._store(known, session, wait=False)
        if added is None:
            if conversation_text:
                raise InputError("the session has no messages to form; extract_observations takes a text")
            return False
        formed = await self._memory.conversations.form(agent_id=known, conversation_id=added.conversation_id)
        return formed.messages > 0

    async def _store(self, agent_id: str, session: Any, *, wait: bool) -> AddResult | None:
        """The result of the last call; None: there were no messages."""
        found, added = await self._read_session(session), None
        _refuse_without_ids(found.messages)
        for first in range(0, len(found.messages), _BATCH):
            batch = found.messages[first : first + _BATCH]
            added = await self._memory.add(
                batch,
                agent_id=agent_id,
                user_id=found.user_id,
                conversation_id=found.conversation_id,
                group_ids=found.group_ids,
                excluded=found.excluded,
                wait=wait and first + _BATCH >= len(found.messages),
            )
            if added.refused:
                log.warning(
                    "%s messages of conversation %s are too long and weren't stored",
                    len(added.refused),
                    found.conversation_id,
                )
        return added

    async def extract_observations(
        self,
        conversation_text: str,
        user: Any,
        groups: Sequence[Any] = (),
        existing_consolidations: Mapping[str, str] | None = None,
        *,
        agent_id: Any = None,
    ) -> list[Observation]:
        """Extracts observations from the text in one model call, each with its scope. They are stored when this returns.

        Extracting and storing aren't separate, so a crash before `save_observations` loses nothing. The same text of the
        same user is the same conversation. If the call is repeated after a crash or an error, the text is formed if it
        wasn't; otherwise the earlier observations are returned without calling the model. Use their ids to forget those
        that you don't want.

        The model is shown the stored texts, not `existing_consolidations`. What it assigns to a group stays with the user
        as a proposal, since only one person has said it.
        """
        agent, user_id = self._agent(None, agent_id), user_id_of(user)
        conversation = await self._conversation_of(user_id, conversation_text)
        added = await self._memory.add(
            [{"role": "user", "content": conversation_text, "id": "text"}],
            agent_id=agent,
            user_id=user_id,
            conversation_id=conversation,
            group_ids=[id_of_host(group) for group in groups],
        )
        formed = await self._memory.conversations.form(agent_id=agent, conversation_id=conversation)
        if added.accepted or formed.messages:
            return list(formed.observations)
        return await self._formed_before(agent, user_id, conversation)

    async def _formed_before(self, agent_id: str, user_id: str, conversation: str) -> list[Observation]:
        """Oldest first."""
        found, before = list[Observation](), None
        while True:
            page = await self._memory.observations.list(agent_id=agent_id, user_id=user_id, limit=_PAGE, before=before)
            found += [item for item in page if item.source.conversation_id == conversation]
            if len(page) < _PAGE:
                return found[::-1]
            before = page[-1]

    async def save_observations(self, observations: Sequence[Observation]) -> list[Observation]:
        """Returns its argument: what `extract_observations` returned is already stored, so repeating this changes nothing.

        Raises `InputError` for anything else. Use `Memory.observe` to store what wasn't extracted.
        """
        for item in observations:
            if not isinstance(item, Observation):
                raise InputError(f"{type(item).__name__} isn't from an extraction; store it with memory.observe")
        return list(observations)

    # Consolidation and propagation

    async def maybe_consolidate(self, scope: Any, *, agent_id: Any = None) -> None:
        """Rewrites the scope's text if enough is pending. If that fails, it stays pending."""
        place = await place_of(self._memory, scope, self._agent_or_none(agent_id))
        if await is_due(self._memory, place):
            await self._memory.scopes.consolidate(agent_id=place.agent_id, scope_id=place.ref.id)

    async def consolidate_scope(self, scope: Any, *, agent_id: Any = None) -> None:
        """Rewrites the scope's text with what is pending. The text and what it absorbs change in one transaction."""
        place = await place_of(self._memory, scope, self._agent_or_none(agent_id))
        await self._memory.scopes.consolidate(agent_id=place.agent_id, scope_id=place.ref.id)

    async def maybe_propagate_to_group(
        self, individual_scope: Any, observations: Sequence[Any] = (), *, agent_id: Any = None
    ) -> None:
        """Judges, for the user's groups, the observations that the user's text has absorbed and that weren't judged yet.

        This may differ from `observations`: each observation is judged once for each group, however often this is called.
        """
        await self._propagate(individual_scope, "individual", agent_id)

    async def maybe_propagate_to_collective(
        self, group_scope: Any, observations: Sequence[Any] = (), *, agent_id: Any = None
    ) -> None:
        """As `maybe_propagate_to_group`, but from a group to everybody."""
        await self._propagate(group_scope, "group", agent_id)

    async def _propagate(self, scope: Any, kind: str, agent_id: Any) -> None:
        place = await place_of(self._memory, scope, self._agent_or_none(agent_id))
        if place.ref.kind != kind:
            raise InputError(f"scope {place.ref.id} is of kind {place.ref.kind}, not {kind}")
        await self._memory.scopes.propagate(agent_id=place.agent_id, scope_id=place.ref.id)

    async def _conversation_of(self, user_id: str, text: str) -> str:
        """The id of the conversation made from a user's text. Equal texts have equal ids, within one database."""
        known = clean(f"{user_id}\0{text}")[0]
        parts = await self._memory.conversations.message_ids([f"{part}{known}" for part in range(_PARTS)])
        return f"extracted-{''.join(parts)}"

    def _agent(self, scope: Any, agent_id: Any) -> str:
        return agent_of(scope, self._agent_or_none(agent_id))

    def _agent_or_none(self, agent_id: Any) -> str | None:
        return self._agent_id if agent_id is None else id_of_host(agent_id)


def _refuse_without_ids(messages: Sequence[Message | Mapping[str, Any]]) -> None:
    """Each call passes the whole session: a message without an id would be stored every time."""
    for position, message in enumerate(messages):
        if field_of(message, "id") is None:
            raise InvalidMessageError(position, "has no id, so it couldn't be recognised if it came again")
