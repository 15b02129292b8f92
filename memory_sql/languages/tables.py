"""What a language's file may hold: one class a table, one field a key. Every key may be left out.

Words are written in a text, apart by white space. A pattern is a regular expression, or a list of which any may stand
there. Phrases are patterns, each under an example of what it finds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Words = frozenset[str]
Pattern = re.Pattern[str]
Alternatives = tuple[str, ...]  # patterns that are still to be put together

NOTHING = re.compile(r"(?!)")


def _table() -> Any:
    return field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Phrases:
    """Patterns by their kind. `any` finds each of them; the group that matched is the kind."""

    kinds: Mapping[str, Mapping[str, str]] = _table()
    any: Pattern = NOTHING


@dataclass(frozen=True, slots=True)
class FunctionWords:
    """The small words of a language. The others are further ones, for one use each.

    `common` serves all uses. `telling` tell the language, too. `asking` frame a question and say nothing of its answer
    (R085). `claiming` say nothing of what is claimed.
    """

    common: Words = frozenset()
    telling: Words = frozenset()
    asking: Words = frozenset()
    claiming: Words = frozenset()


@dataclass(frozen=True, slots=True)
class Counting:
    """`words`: the number words from 0 up, in order; those for one number stand together, a/b. `beyond`: larger ones.

    `joins`: the word between two parts of a number.
    """

    words: str = ""
    beyond: Mapping[str, int] = _table()
    joins: str = ""


@dataclass(frozen=True, slots=True)
class ToldBy:
    """Small words by which a text is known to be in this language, beside others'; English has [function_words].

    `letters`: those that it has beside a to z; a word with others speaks against it.
    """

    words: Words = frozenset()
    letters: str = ""


@dataclass(frozen=True, slots=True)
class Recall:
    """How a message asks, and asks for what was said before. Matched in lower case against one sentence without the marks
    around it, with straight apostrophes and single spaces.

    `phrases`: it asks for what was said, whatever its form. `to_store`: it tells something to remember, and asks nothing.
    `frame`: polite words before the question proper. `question`: it begins like one; `hung_on`: so does its last clause.
    `telling`: a request to be told about something. `past`: it asks for a former state. `task`: of all languages together,
    what follows its colon is to be worked on.
    """

    phrases: Phrases = Phrases()
    to_store: Pattern = NOTHING
    frame: Pattern = NOTHING
    question: Pattern = NOTHING
    hung_on: Pattern = NOTHING
    telling: Pattern = NOTHING
    past: Pattern = NOTHING
    task: Alternatives = ()


@dataclass(frozen=True, slots=True)
class Signals:
    """What a user says to be remembered, each pattern under an example. Capitals don't count."""

    correction: Mapping[str, str] = _table()
    standing_instruction: Mapping[str, str] = _table()
    lasting_preference: Mapping[str, str] = _table()
    introduction: Mapping[str, str] = _table()
    decision: Mapping[str, str] = _table()
    for_the_record: Mapping[str, str] = _table()


@dataclass(frozen=True, slots=True)
class Search:
    """`forms`: words that no stemmer brings together, a line for each."""

    forms: str = ""


@dataclass(frozen=True, slots=True)
class Dates:
    """Words are in lower case. In `patterns`, one for each way to name a date, `{name}` is any word of that table.

    `holidays`: month × 100 + day. `leading`: small words that may stand before a date with which a sentence begins.
    """

    numbers: Mapping[str, int] = _table()
    units: Mapping[str, str] = _table()
    weekdays: Mapping[str, int] = _table()
    months: Mapping[str, int] = _table()
    holidays: Mapping[str, int] = _table()
    seasons: Mapping[str, int] = _table()
    offsets: Mapping[str, int] = _table()
    relations: Mapping[str, int] = _table()
    past: Words = frozenset()
    past_ending: str = ""
    not_past: Words = frozenset()
    future: Words = frozenset()
    to_come: Words = frozenset()
    habits: Words = frozenset()
    verbs_too: Words = frozenset()
    never_after: Words = frozenset()
    leading: Words = frozenset()
    patterns: Mapping[str, str] = _table()


@dataclass(frozen=True, slots=True)
class Category:
    """What tells something personal: a word alone is enough. Matched in lower case without accents."""

    words: Words = frozenset()
    phrases: Alternatives = ()


@dataclass(frozen=True, slots=True)
class Personal:
    """Of all languages together. `{whose}` … in phrases: any of these, and their like in the other languages.

    `mailboxes`: those of firms, not of people. `streets`: matched against the text as it is, for its capitals.
    """

    whose: Words = frozenset()
    which: Alternatives = ()
    money: Alternatives = ()
    day: Alternatives = ()
    health: Category = Category()
    financial: Category = Category()
    identity: Category = Category()
    intimate: Category = Category()
    contact: Category = Category()
    mailboxes: Words = frozenset()
    streets: Alternatives = ()


@dataclass(frozen=True, slots=True)
class Names:
    """Of all languages together, in lower case. `given`: common given names, no record of anybody. `words_too`: those of
    them that are also words: they count only with a capital, and not where a sentence begins. `familiar`: places, times,
    firms, works and people that everybody knows.
    """

    given: Words = frozenset()
    words_too: Words = frozenset()
    familiar: Words = frozenset()


@dataclass(frozen=True, slots=True)
class Secrets:
    """How secrets are named, of all languages together. Plain words: a space may be left out, capitals don't count.

    `password`, `key`, `login`, `account`: what is followed by one. `code_of` and `code`: the two parts of "door code".
    `said` and `still`: between the name and the secret ("is", "now"); `said_closely`: without spaces.
    `of`: what the secret belongs to. `into`: it was changed to this. `plain`: what is said of a password without saying
    it. `counted`: after a number that is none.
    """

    password: Alternatives = ()
    key: Alternatives = ()
    login: Alternatives = ()
    account: Alternatives = ()
    code_of: Alternatives = ()
    code: Alternatives = ()
    said: Alternatives = ()
    said_closely: Alternatives = ()
    still: Alternatives = ()
    of: Alternatives = ()
    into: Alternatives = ()
    plain: Words = frozenset()
    counted: Alternatives = ()


@dataclass(frozen=True, slots=True)
class Sharing:
    """What keeps a statement from more people than one. All are looked for in lower case; of all languages together.

    `opens_order`: how a clause begins that tells somebody what to do. `ordered`: an order to whoever reads, or to the
    agent, anywhere. `confidence`: said to one person alone. Only where a text is in this language: `second_person`: you;
    `first_person`: I; `somebody`: one person who isn't named.
    """

    opens_order: Pattern = NOTHING
    ordered: Pattern = NOTHING
    confidence: Pattern = NOTHING
    second_person: Pattern = NOTHING
    first_person: Pattern = NOTHING
    somebody: Pattern = NOTHING


@dataclass(frozen=True, slots=True)
class Likeness:
    """By what two short statements are compared.

    Words: `vague` say nothing of what is claimed; `units` follow a figure; `negations`, of all languages together;
    `days`, `days_too`: names of days beside [dates], and those that are words as well. `named_team`: what names a team.
    `opposites`: pairs, a/b. `same`: words for one thing, a line for each, the first stands for all. `numbers`: by word.
    """

    vague: Words = frozenset()
    units: Words = frozenset()
    negations: Words = frozenset()
    days: Words = frozenset()
    days_too: Words = frozenset()
    named_team: Pattern = NOTHING
    opposites: Words = frozenset()
    same: str = ""
    numbers: Mapping[str, int] = _table()
