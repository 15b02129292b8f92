"""Whose a memory of mem0 is here. Its ids are a user, an agent and a run, each of which may be missing. Pure."""

from __future__ import annotations

OF_AGENT, OF_RUN = "agent ", "run "
BETWEEN = " / "


def owner_of(user: str | None, agent: str | None, run: str | None) -> str | None:
    """The user whose memory it is: one that stands for the agent or the run where mem0 names no user; None: nobody.

    mem0's own ids contain no white space, so no user has the id of such a stand-in.
    """
    if user:
        return user
    if agent:
        return f"{OF_AGENT}{agent}"
    return f"{OF_RUN}{run}" if run else None


def is_stand_in(user: str) -> bool:
    return user.startswith((OF_AGENT, OF_RUN))


def conversation_of(owner: str, run: str | None) -> str:
    """The conversation of a run, or of all that is said without one. Each user has their own, also of the same run."""
    return f"{run or ''}{BETWEEN}{owner}".strip()


def run_of(conversation: str, owner: str) -> str | None:
    """The run of such a conversation; None: it has none, or is another one."""
    return conversation.removesuffix(f"{BETWEEN}{owner}") if conversation.endswith(f"{BETWEEN}{owner}") else None
