"""The selection of what to forget or quarantine."""

from __future__ import annotations

from typing import Any, Self

from pydantic import ValidationError, model_validator

from memory_sql.domain.arguments import needed_text, tag_of
from memory_sql.domain.ids import Id, Value, host_id, stored_id
from memory_sql.domain.observations import SourceKind
from memory_sql.errors import InputError, InvalidIdError


class Selection(Value):
    """Selects what to forget or quarantine: everything of one user, conversation, group or the agent, one message, or some
    observations. `about`, with a user, adds what others have said about this user alone; what speaks of others as well is
    only listed in the receipt.

    `message_id`, with its conversation, selects a message and what was made of it. `observation_id`, `fact_key`, `tag`,
    `query` (parsed as in a search; at least one word, and all must match), `source` (formation, observe, propagation, import)
    and `run_id` select observations that match all given; a group or conversation narrows these further, and a user to those
    in their scope and those that they alone have said. `replaced` adds what these have taken the place of, and what that had;
    else that stands again.
    """

    user_id: str | None = None
    about: bool = False
    conversation_id: str | None = None
    group_id: str | None = None
    message_id: str | None = None
    observation_id: str | None = None
    fact_key: str | None = None
    tag: str | None = None
    query: str | None = None
    source: SourceKind | None = None
    run_id: int | None = None
    replaced: bool = False
    everything: bool = False

    def __init__(
        self,
        *,
        user_id: Id | None = None,
        about: bool = False,
        conversation_id: Id | None = None,
        group_id: Id | None = None,
        message_id: Id | None = None,
        observation_id: str | None = None,
        fact_key: Id | None = None,
        tag: str | None = None,
        query: str | None = None,
        source: SourceKind | None = None,
        run_id: int | None = None,
        replaced: bool = False,
        everything: bool = False,
    ) -> None:
        """Raises `InputError`."""
        ids = dict(zip(_IDS, (user_id, conversation_id, group_id, message_id, fact_key), strict=True))
        given: dict[str, Any] = {
            "about": about,
            "observation_id": observation_id,
            "tag": None if tag is None else tag_of("tag", tag),
            "query": None if query is None else needed_text("query", query),
            "source": source,
            "run_id": run_id,
            "replaced": replaced,
            "everything": everything,
        }
        try:
            super().__init__(**given, **{k: None if v is None else stored_id(v, k) for k, v in ids.items()})
        except ValidationError as error:
            first = error.errors(include_input=False)[0]
            raise InputError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None

    @property
    def refused(self) -> InvalidIdError | None:
        """Why other calls refuse one of the ids. Older ids may be like that: it counts where nothing is found."""
        try:
            for name in _IDS:
                if (value := getattr(self, name)) is not None:
                    host_id(value, name)
        except InvalidIdError as error:
            return error
        return None

    @property
    def selects_observations(self) -> bool:
        return any(getattr(self, name) is not None for name in _SELECTORS)

    @property
    def is_one_observation(self) -> bool:
        """Whether it is only the id of an observation."""
        return self == Selection(observation_id=self.observation_id) if self.observation_id else False

    @property
    def is_own_observation(self) -> bool:
        """Whether it is one observation of a user's scope, or that they alone have said; maybe with what it replaced."""
        if self.user_id is None or self.observation_id is None:
            return False
        return self == Selection(user_id=self.user_id, observation_id=self.observation_id, replaced=self.replaced)

    @property
    def is_one_conversation(self) -> bool:
        """As a whole."""
        return self.conversation_id is not None and self.message_id is None and not self.selects_observations

    @property
    def is_one_user(self) -> bool:
        """All of them."""
        return self.user_id is not None and not self.selects_observations

    @property
    def named(self) -> dict[str, str | int | bool]:
        """The given ids and other safe values; for those that may contain remembered text, only that they were given."""
        given = {
            name: getattr(self, name)
            for name in (*_WHOLES, "message_id", "observation_id", "source", "run_id", "about", "replaced")
            if getattr(self, name)
        }
        return given | {name: True for name in ("fact_key", "tag", "query", "everything") if getattr(self, name)}

    @model_validator(mode="after")
    def _says_what(self) -> Self:
        wholes = sum(getattr(self, name) is not None for name in _WHOLES)
        if self.everything and (wholes or self.selects_observations):
            raise InputError("everything=True can't be combined with other selections")
        if self.about and (self.user_id is None or self.selects_observations):
            raise InputError("about=True goes only with user_id=")
        if self.replaced and not self.selects_observations:
            raise InputError("replaced=True goes only with what selects observations")
        if self.message_id and (self.conversation_id is None or wholes > 1 or self.selects_observations):
            raise InputError("select a message by message_id= and its conversation_id= only")
        if not self.everything and not self.selects_observations and wholes != 1:
            raise InputError(
                "select what to forget: one user, conversation or group, some observations, or everything=True"
            )
        return self


def selection_of(value: Selection | str) -> Selection:
    if isinstance(value, Selection):
        return value
    if not isinstance(value, str):
        raise InputError(f"pass a Selection or the id of an observation, not {type(value).__name__}")
    return Selection(observation_id=value)


def observations_only(selection: Selection) -> Selection:
    """A selection of observations by origin or properties. A single observation is named by its id instead."""
    if selection.everything or selection.message_id is not None or selection.observation_id is not None:
        raise InputError("select observations by user, conversation, group, fact_key, tag, query, source or run_id")
    return selection


_WHOLES = ("user_id", "conversation_id", "group_id")


_IDS = (*_WHOLES, "message_id", "fact_key")  # all of the host's


_SELECTORS = ("observation_id", "fact_key", "tag", "query", "source", "run_id")
