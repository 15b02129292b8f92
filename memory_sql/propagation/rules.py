"""Rules for what may not be shared with a wider scope, before a model sees a statement and after it has rewritten one.

They are pure, local and linear in the length of the text. The model is assumed to obey whoever wrote the text, so its
opinion counts for nothing here. Rules refuse what may do harm by its form: hidden text, markup, secrets, sensitive data,
orders, and what was said in confidence. Whether a statement is private to one person is left to the judge; whether it is
true is left to the requirement of several sources.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from memory_sql.privacy.classify import classify
from memory_sql.privacy.confidence import said_in_confidence
from memory_sql.propagation.likeness import ungrounded
from memory_sql.propagation.names import names_somebody
from memory_sql.propagation.shape import misshapen
from memory_sql.propagation.speech import in_first_person, is_of_somebody, is_order

REASONS = (
    "empty",
    "too_long",
    "invisible",
    "markup",
    "link",
    "code",
    "question",
    "classified",
    "confidence",
    "instruction",
    "first_person",
)
LEAKS = (*REASONS, "name", "pronoun", "ungrounded")


def withheld(text: str) -> str | None:
    """Why a stored statement must not be shown to the judge, one of `REASONS`; None: it may be shown.

    Contact data has already been removed from it. The statement may name people; its rewritten form must not.
    """
    return misshapen(text) or _harmful(text)


def leaks(
    text: str, *, names: Collection[str], sources: Sequence[str], things: Collection[str] = (), may_name: bool = False
) -> str | None:
    """Why a rewritten statement must not be stored in the wider scope, one of `LEAKS`; None: it may be stored.

    `names`: ids and display names of known people. `things`: names of groups, which aren't people. `sources`: the texts that
    it was made from. Every figure, date and name in it must occur in one of them.
    """
    return (
        misshapen(text)
        or (None if may_name else names_somebody(text, names, things))
        or (None if may_name or not is_of_somebody(text) else "pronoun")
        or _harmful(text)
        or ungrounded(text, sources)
    )


def _harmful(text: str) -> str | None:
    if "?" in text:
        return "question"
    if classify(text).categories:
        return "classified"
    if said_in_confidence(text):
        return "confidence"
    if is_order(text):
        return "instruction"
    return "first_person" if in_first_person(text) else None
