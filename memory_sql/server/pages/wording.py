"""The words of the pages for what the values say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memory_sql.domain.observations import Observation
from memory_sql.domain.results import Kept, Receipt

SHOWN = 300  # characters of a text in a list

TOLD = {
    "corrected": "Corrected. The old wording stays in the history.",
    "confirmed": "Confirmed.",
    "disputed": "Marked as disputed. The agent is told that it isn't certain.",
    "marked": "Changed who may learn of it.",
    "resolved": "Marked as over.",
    "reinstated": "It is current again.",
    "hidden": "Hidden. The agent doesn't see it any more.",
    "unhidden": "Brought back.",
    "accepted": "Accepted.",
    "refused": "Refused.",
    "retried": "It will be tried again.",
    "discarded": "It won’t be tried again.",
    "consolidated": "The text was rewritten.",
    "unchanged": "There was nothing to rewrite.",
    "undone": "The text before is back.",
    "placed": "The hold was placed.",
    "released": "The hold was released.",
    "revoked": "The key was revoked.",
    "signed_out": "You are signed out.",
}
"""What a page says after a change, by the word in its address; any other word says nothing."""

_KINDS = {
    "collective": "Everybody’s",
    "agent": "The agent’s own",
    "guideline": "Guidelines",
    "group": "{} (group)",
    "individual": "About {}",
    "entity": "About {}",
    "conversation": "The conversation {}",
}

_COUNTS = {
    "observations": ("memory", "memories"),
    "messages": ("message", "messages"),
    "consolidations": ("version of a text", "versions of texts"),
    "members": ("membership of a group", "memberships of groups"),
    "evidence": ("note of who said what", "notes of who said what"),
    "lineage": ("link between memories", "links between memories"),
    "judged": ("decision about sharing", "decisions about sharing"),
    "runs": ("record of a model’s work", "records of a model’s work"),
}


def many(count: int, one: str, several: str | None = None) -> str:
    """1 memory, 2 memories, 1,000 memories."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def cut(text: str, characters: int = SHOWN) -> str:
    return text if len(text) <= characters else f"{text[:characters].rstrip()} …"


def begun(text: str) -> str:
    """As the beginning of a sentence; names in it stay as they are."""
    return text[:1].upper() + text[1:]


def scope_name(kind: str, owner: str | None, name: str | None, display_name: str | None = None) -> str:
    whose = _KINDS[kind].replace("{}", display_name or owner or "")
    return f"{whose}: {name}" if name else whose


def state(observation: Observation) -> list[str]:
    """What a reader should know about it, in a few words each."""
    return list(_state(observation))


def _state(one: Observation) -> Iterator[str]:
    if one.superseded_by is not None:
        yield "replaced"
    elif one.resolved == "fulfilled":
        yield "done"
    elif one.resolved == "expired":
        yield "over"
    elif one.status != "active":
        yield one.status
    if one.verification != "unverified":
        yield one.verification
    if one.sensitivity == "sensitive":
        yield "sensitive"
    if one.no_propagate or one.confidential:
        yield "never shared"
    if one.pending and one.status == "active":
        yield "not in the text yet"


def where_from(observation: Observation) -> str:
    """By which way it came into memory."""
    source = observation.source
    by = f" by {source.speaker}" if source.speaker else ""
    match source.kind:
        case "formation":
            return f"said{by} in the conversation {source.conversation_id}" if source.conversation_id else f"said{by}"
        case "propagation":
            return "learnt from what people have said elsewhere"
        case "import":
            return "imported from another system"
        case _:
            by = by or " by the application"
            return f"told{by} in the conversation {source.conversation_id}" if source.conversation_id else f"told{by}"


def counts_of(receipt: Receipt) -> list[tuple[str, int]]:
    """What goes, and what legal holds keep: a table of words and numbers, the same before and after."""
    found = [(_counted(name, receipt.counts[name]), receipt.counts[name]) for name in _ordered(receipt.counts)]
    for name in _ordered(receipt.held):
        found.append((f"{_counted(name, receipt.held[name])} kept by a legal hold", receipt.held[name]))
    if receipt.withheld:
        rewritten = len(receipt.withheld)
        found.append(("text to be rewritten" if rewritten == 1 else "texts to be rewritten", rewritten))
    return found


def _ordered(counts: Mapping[str, int]) -> list[str]:
    """What people ask for first comes first."""
    order = [*_COUNTS]
    named = [name for name, count in counts.items() if count]
    return sorted(named, key=lambda name: order.index(name) if name in order else len(order))


def _counted(name: str, count: int) -> str:
    one, several = _COUNTS.get(name, (name, name))
    return one if count == 1 else several


def why_kept(kept: Kept) -> str:
    users = ", ".join(kept.users)
    match kept.reason:
        case "another":
            return f"{users} said it too"
        case "elsewhere":
            return f"{users} said it elsewhere too"
        case "host":
            return "it was told by the application"
        case "source":
            return "it was learnt from something else as well"
        case "again":
            return f"it says the same in other words, by {users or 'the application'}"
        case "about":
            return f"said about them by {users or 'the application'}"
