"""What may be shared with a wider scope: rules before a model sees a statement, and after it has rewritten one.

Pure, local, in time linear in the text. The model is taken to obey whoever wrote the text, so what it answers counts for
nothing here. Rules are positive: what isn't recognised as a plain English statement about shared work is withheld. They
read forms, not minds: a false statement in plain words passes, and has to be stopped by asking for several sources.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from memory_sql.propagation.likeness import ungrounded
from memory_sql.propagation.matters import is_about_work, is_personal
from memory_sql.propagation.people import Known, known_people, names_somebody, singles_somebody_out
from memory_sql.propagation.shape import misshapen
from memory_sql.propagation.speech import is_english, is_order
from memory_sql.propagation.tokens import SENTENCE, STRAIGHT
from memory_sql.propagation.vocabulary import vocabulary

REASONS = (
    "empty",
    "too_long",
    "invisible",
    "markup",
    "contact",
    "link",
    "code",
    "question",
    "instruction",
    "language",
    "first_person",
    "personal",
)
LEAKS = (*REASONS, "name", "pronoun", "ungrounded")


def withheld(text: str, *, names: Collection[str] = ()) -> str | None:
    """Why a stored statement must not be shown to the model that judges propagation, one of `REASONS`; None: it may be.

    `names` are ids and display names of people that are known. A statement may name people: the rewritten one may not.
    """
    return misshapen(text) or _unfit(text, known_people(names, text))


def leaks(text: str, *, names: Collection[str], sources: Sequence[str], may_name: bool = False) -> str | None:
    """Why a rewritten statement must not be stored in the wider scope, one of `LEAKS`; None: it may be.

    `sources` are the texts that it was made from; every figure, date and name in it must stand in one of them.
    """
    known = known_people(names, text)
    return (
        misshapen(text)
        or (None if may_name else names_somebody(text, known))
        or singles_somebody_out(text)
        or _unfit(text, known)
        or ungrounded(text, sources)
    )


def _unfit(text: str, known: Known) -> str | None:
    listed = vocabulary()
    plain = text.translate(STRAIGHT)
    lower = " ".join(plain.lower().split())
    sentences = [part for part in SENTENCE.split(plain) if any(c.isalnum() for c in part)]
    if "?" in plain or any(listed.asks.match(sentence) for sentence in sentences):
        return "question"
    if is_order(lower, sentences):
        return "instruction"
    if "!" in plain or listed.unresolved.match(plain) or any(is_personal(sentence, known) for sentence in sentences):
        return "personal"
    if not all(is_english(sentence) for sentence in sentences):
        return "language"
    if listed.first_person.search(lower):
        return "first_person"
    return None if all(is_about_work(sentence) for sentence in sentences) else "personal"
