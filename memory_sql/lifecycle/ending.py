"""The end of the texts of messages that have asked for it: a forgetting of its own, which takes nothing else.

What was made of the messages stays. What a hold keeps is withdrawn, and goes with its release.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from datetime import datetime

from memory_sql.db import Session
from memory_sql.db.repositories.events import record
from memory_sql.db.repositories.messages import end_texts
from memory_sql.lifecycle.journal import Entry


async def end(
    session: Session,
    agent_id: str,
    agent_key: int,
    conversation_id: str,
    numbers: Collection[int],
    now: datetime,
    *,
    again: str | None = None,
) -> Entry | None:
    """What the journal has to say of it; None: they have no texts any more, nor has what was answered to them.

    The caller has locked the conversation.

    `again`: what was done before by that id, which is recorded in any case.
    """
    forgetting = again or str(uuid.uuid4())
    ended = await end_texts(session, agent_key, conversation_id, numbers, forgetting)
    if not ended and again is None:
        return None
    detail = {
        "id": forgetting,
        "target": {"texts": True},
        "observations": [],
        "numbers": ended,
        "counts": {"messages": len(ended)},
    }
    await record(session, agent_key, "forget", now, conversation_id=conversation_id, detail=detail)
    return Entry(id=forgetting, at=now, agent_id=agent_id, ended={conversation_id: tuple(ended)})
