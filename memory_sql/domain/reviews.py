"""What waits for a person's decision."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from memory_sql.domain.ids import ScopeId, Value


class Review(Value):
    """Something that waits for a person's decision (`work.reviews`, `work.decide`).

    `says` is what applies if it is accepted: a claim for the scope `target_scope_id`, a newer observation, a new text, or
    sentences that the text was given and nothing shown says, one per line (`unsaid`; the whole text, if all of it was
    refused), or what a group goes on knowing (`group`) though the two members who had spoken there are one person
    (`people.merge`), or in which words a person has asked to forget (`request`) what is
    quarantined since. `instead_of` is what it would replace: the older observation, or the current text; None: nothing, or
    what stands for those sentences. `why` is one word.
    `still`: what else of the older observation would stay, as one of its own; that alone is asked where `why` is `still`.
    `observations`: the ids of those that a request would forget or replace which has changed nothing yet (`spoken_requests`):
    then `says` is the message that asks.
    """

    id: str
    kind: Literal["claim", "contradiction", "text", "group", "request"]
    scope_id: ScopeId
    why: str
    since: datetime
    says: str
    instead_of: str | None = None
    target_scope_id: ScopeId | None = None
    still: str | None = None
    observations: tuple[str, ...] = ()
