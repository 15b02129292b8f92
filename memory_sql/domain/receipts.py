"""What a forgetting deleted, and what stayed."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from datetime import datetime
from typing import Literal

from memory_sql.domain.ids import ScopeId, Value


class Physical(Value):
    """How long deleted rows physically remain: PostgreSQL keeps old row versions until a vacuum.

    `statements` free the space at once (`memory-sql db vacuum` runs them). `backups_until`: when the newest backup that
    contains the rows expires, by the setting `backup_days`.
    """

    statements: tuple[str, ...]
    backups_until: datetime


KeptReason = Literal["another", "elsewhere", "host", "source", "again", "about"]


class Kept(Value):
    """An observation that stays although a forgetting took some of its messages or sources, or although it speaks of them.

    `reason`: `another` (`users` say so too), `elsewhere` (`users`, whose words were deleted, say so elsewhere too), `host`
    (the host stated it), `source` (it was derived from something else as well), `again` (it says the same as something
    deleted, in other words of `users`, and stands again) or `about` (`users` said it about them).
    """

    observation: str
    reason: KeptReason
    users: tuple[str, ...] = ()


class Naming(Value):
    """A scope of others that still names a user who was forgotten: in these `versions` of its text and these `observations`.

    A name is one by which they spoke or were listed, its first word, or their id, as a word, in any case. Of an observation
    the text, the speaker, the tags, the metadata and the fact key are looked through.
    """

    scope_id: ScopeId
    versions: tuple[int, ...] = ()
    observations: tuple[str, ...] = ()


class Receipt(Value):
    """What a forgetting deleted. `counts` are rows by table; of a message the key stays, without any text.

    `observations`: the deleted ids; `kept`: those that lost something and stay; `standing`: those that had given way to
    something deleted and stand again. `rebuilt`: scopes whose text was rewritten
    from what is left. `withheld`: scopes that lost their text, or part of it, and show pending observations until it is
    rewritten. `held`: how much legal holds kept; `withdrawn`: the ids of that, out of use until the holds end. `naming`:
    where texts of others still name the user; none of that was deleted. `physical` None: there was nothing to delete.
    `dry_run`: nothing was deleted; the receipt says what would have been.
    """

    id: str
    at: datetime
    target: dict[str, str | int | bool]
    dry_run: bool
    observations: tuple[str, ...]
    counts: dict[str, int]
    held: dict[str, int]
    withdrawn: tuple[str, ...] = ()
    kept: tuple[Kept, ...] = ()
    standing: tuple[str, ...] = ()
    rebuilt: tuple[ScopeId, ...] = ()
    withheld: tuple[ScopeId, ...] = ()
    naming: tuple[Naming, ...] = ()
    physical: Physical | None

    @property
    def found(self) -> bool:
        """Whether there was anything of what was to be forgotten."""
        return any(self.counts.values()) or any(self.held.values())

    @property
    def fingerprint(self) -> str:
        """Of what goes and what stays, in hex: the same for the same, of a dry run and of what is then deleted."""
        told = self.model_dump(mode="json", exclude={"id", "at", "physical", "dry_run", "rebuilt"})
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


class PersonReceipt(Value):
    """What forgetting a user deleted of all agents that knew them, in one transaction: the receipt of each, by its id.

    An agent that had nothing of them, but where others name them, has a receipt with that alone (`naming`). `agents` empty:
    nobody knew or named them. `dry_run`: nothing was deleted.
    """

    id: str
    at: datetime
    user_id: str
    dry_run: bool
    agents: dict[str, Receipt]

    @property
    def counts(self) -> dict[str, int]:
        """Rows by table, of all agents together."""
        total: Counter[str] = Counter()
        for receipt in self.agents.values():
            total.update(receipt.counts)
        return dict(total)
