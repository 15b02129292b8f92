"""The scopes' own prompts for the models that form their observations and write their texts."""

from __future__ import annotations

from typing import get_args

from memory_sql.config.kinds import PromptMode, PromptName
from memory_sql.db import Joinable, Session
from memory_sql.db.principals import service
from memory_sql.db.repositories.agents import agent_key_of
from memory_sql.db.repositories.events import record
from memory_sql.db.repositories.scope_settings import ScopeSettingsRepository
from memory_sql.db.repositories.scopes import ScopeRepository
from memory_sql.domain.arguments import id_of, optional_id, optional_scope, reason_of, text_of, within
from memory_sql.domain.ids import MOST_SEQ, Id, parse_scope_id
from memory_sql.domain.prompts import ScopePrompt
from memory_sql.errors import InputError, NotFoundError, TooLargeError
from memory_sql.llm.prompts import check_instructions
from memory_sql.resources.runtime import Face, agent_key

MOST_CHARACTERS = 20_000  # of a scope's own prompt


class Prompts(Face):
    """A scope's own prompts: `extraction` for the model that forms its observations, `consolidation` for the one that
    writes its text. Versions are numbered and never changed; the newest applies.

    Guidance is added to the base prompt; an override replaces its instructions. An override contains the slots `{{data}}`
    and `{{answer}}`, which the library fills: what is data, and the form of the answer. A scope with an override gets a
    model call of its own.
    """

    async def set(
        self,
        scope_id: str,
        name: PromptName,
        body: str | None,
        *,
        agent_id: Id,
        mode: PromptMode = "guidance",
        actor: Id | None = None,
        reason: str | None = None,
        session: Joinable | None = None,
    ) -> ScopePrompt:
        """Adds a version, which applies from the next model call on, and returns it. `body` None: the base prompt again.

        Model work in progress with the old prompt is discarded. Raises `InputError` for an override without its two slots
        and for an unknown name or mode; `TooLargeError`, `NotFoundError`.
        """
        agent, key, now = id_of("agent_id", agent_id), parse_scope_id(scope_id), self._now()
        _check_name(name)
        words, counting = _words(body, mode)
        by, why = optional_id("actor", actor), reason_of(reason)

        async def write(unit: Session) -> ScopePrompt:
            found = await agent_key(unit, agent, "scope", scope_id)
            if not await ScopeRepository(unit).lock(found, scope_ids=[key]):
                raise NotFoundError("scope", scope_id)
            settings = ScopeSettingsRepository(unit, found)
            version = await settings.add_prompt(key, name, counting, words, now)
            await settings.change(key, {}, epoch=True)
            detail = {"action": "prompt", "name": name, "mode": counting, "prompt_version": version}
            await record(unit, found, "scope", now, actor=by, reason=why, scope_id=key, detail=detail)
            return (await settings.prompts(key, name))[0]

        return await self._database.write(write, session, service(agent))

    async def list(
        self, *, agent_id: Id, scope_id: str | None = None, session: Joinable | None = None
    ) -> list[ScopePrompt]:
        """All versions, of one scope or all, newest first within each scope and name."""
        agent, key = id_of("agent_id", agent_id), optional_scope(scope_id)
        async with self._database.transaction(session, service(agent)) as unit:
            found = await agent_key_of(unit, agent)
            return [] if found is None else await ScopeSettingsRepository(unit, found).prompts(key)

    async def get(
        self,
        scope_id: str,
        name: PromptName,
        *,
        agent_id: Id,
        version: int | None = None,
        session: Joinable | None = None,
    ) -> ScopePrompt:
        """One version; None: the newest. Raises `NotFoundError`, also if the scope has no prompt of that name."""
        _check_name(name)
        if version is not None:
            within("version", version, MOST_SEQ)
        agent, key = id_of("agent_id", agent_id), parse_scope_id(scope_id)
        async with self._database.transaction(session, service(agent)) as unit:
            found = await agent_key(unit, agent, "scope", scope_id)
            for prompt in await ScopeSettingsRepository(unit, found).prompts(key, name):
                if version in (None, prompt.version):
                    return prompt
        which = "" if version is None else f" {version}"
        raise NotFoundError(f"{name} prompt{which} of scope", scope_id)


def _check_name(name: str) -> None:
    if name not in get_args(PromptName):
        raise InputError(f"a prompt is named {' or '.join(get_args(PromptName))}")


def _words(body: str | None, mode: PromptMode) -> tuple[str | None, PromptMode]:
    if mode not in get_args(PromptMode):
        raise InputError(f"mode must be one of {', '.join(get_args(PromptMode))}")
    if body is None:
        return None, "base"
    if mode == "base":
        raise InputError("the base prompt takes no text: pass None")
    text = text_of("body", body).strip()
    if not text:
        raise InputError("a prompt needs some text; None goes back to the base prompt")
    if len(text) > MOST_CHARACTERS:
        raise TooLargeError("the prompt", len(text), MOST_CHARACTERS)
    if mode == "override":
        check_instructions(text)
    return text, mode
