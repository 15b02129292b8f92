"""The tables of a language's file: a class for each table, a field for each key. Every key is optional.

Words are written in one text, separated by white space. A pattern is a regular expression, or a list of alternatives.
Phrases are patterns, each with an example of what it matches as its key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

Words = frozenset[str]
Pattern = re.Pattern[str]
Alternatives = tuple[str, ...]  # patterns that are still to be joined

NOTHING = re.compile(r"(?!)")
_NONE: Mapping[str, Any] = MappingProxyType({})


class Phrases(NamedTuple):
    """Patterns by kind. `any` finds all of them; the group that matched names the kind."""

    kinds: Mapping[str, Mapping[str, str]] = _NONE
    any: Pattern = NOTHING


class FunctionWords(NamedTuple):
    """The function words of a language. Each of the other fields adds words for one use.

    `common` serves all uses. `telling` words also identify the language. `asking` words frame a question and say nothing
    about its answer (R085). `claiming` words say nothing about what is claimed.
    """

    common: Words = frozenset()
    telling: Words = frozenset()
    asking: Words = frozenset()
    claiming: Words = frozenset()


class Counting(NamedTuple):
    """`words`: the number words from 0 up, in order; alternatives for one number as a/b. `beyond`: larger numbers.

    `joins`: the word between two parts of a number.
    """

    words: str = ""
    beyond: Mapping[str, int] = _NONE
    joins: str = ""


class Amounts(NamedTuple):
    """Words of what is counted and of the clock, in lower case.

    `worth`: by how much a word multiplies what is counted (a dozen, half), or how many of the next smaller unit it is (an
    hour 60, a week 7); alternatives as a/b. `clock`: phrases with `{}` in the place of an hour, and the minutes that they
    add to it. `hours`: the forms of the hours from 1 up that aren't number words.
    """

    worth: Mapping[str, float] = _NONE
    clock: Mapping[str, int] = _NONE
    hours: str = ""


class ToldBy(NamedTuple):
    """Function words that identify a language among others. English has [function_words] instead.

    `letters`: its letters besides a to z. A word with any other letter counts against the language.
    """

    words: Words = frozenset()
    letters: str = ""


class Recall(NamedTuple):
    """How a message asks about earlier conversations.

    Patterns are matched in lower case against one sentence without surrounding punctuation, with straight apostrophes and
    single spaces.

    `phrases`: ask for what was said, in any form. `to_store`: tell something to be remembered and ask nothing. `past`: ask
    for an earlier state.
    """

    phrases: Phrases = Phrases()
    to_store: Pattern = NOTHING
    past: Pattern = NOTHING


class Signals(NamedTuple):
    """What a user says to have something remembered. Case doesn't matter."""

    correction: Mapping[str, str] = _NONE
    standing_instruction: Mapping[str, str] = _NONE
    lasting_preference: Mapping[str, str] = _NONE
    introduction: Mapping[str, str] = _NONE
    decision: Mapping[str, str] = _NONE
    for_the_record: Mapping[str, str] = _NONE


class Requests(NamedTuple):
    """How a person asks the memory itself to forget or to correct something about them. Case doesn't matter.

    A match ends where begins what is meant: `forget my old address` ends before `my`. `words`: without any of
    them nobody asks to forget anything in this language. `polite`: words that tell nothing beside a request. `beside`: where
    to delete it from, behind what is meant. `behind`: as `forget`, behind another clause of the sentence; not where one
    of `others` stands in the rest of the sentence: somebody else has said it, or it is supposed or talked about.
    """

    words: Words = frozenset()
    polite: Words = frozenset()
    others: Words = frozenset()
    beside: str = ""
    forget: Mapping[str, str] = _NONE
    behind: Mapping[str, str] = _NONE
    correct: Mapping[str, str] = _NONE


class Search(NamedTuple):
    """`forms`: words that no stemmer relates, one line for each set."""

    forms: str = ""


class Dates(NamedTuple):
    """Words are in lower case. `patterns`: one for each way to name a date, in which `{name}` is any word of that table.

    `holidays`: month × 100 + day. `leading`: small words that may precede a date at the beginning of a sentence.
    """

    numbers: Mapping[str, int] = _NONE
    units: Mapping[str, str] = _NONE
    weekdays: Mapping[str, int] = _NONE
    months: Mapping[str, int] = _NONE
    holidays: Mapping[str, int] = _NONE
    seasons: Mapping[str, int] = _NONE
    offsets: Mapping[str, int] = _NONE
    relations: Mapping[str, int] = _NONE
    past: Words = frozenset()
    past_ending: str = ""
    not_past: Words = frozenset()
    future: Words = frozenset()
    to_come: Words = frozenset()
    habits: Words = frozenset()
    verbs_too: Words = frozenset()
    never_after: Words = frozenset()
    leading: Words = frozenset()
    patterns: Mapping[str, str] = _NONE


class Category(NamedTuple):
    """What identifies something personal; a single word is enough. Matched in lower case without accents."""

    words: Words = frozenset()
    phrases: Alternatives = ()


class Personal(NamedTuple):
    """Of all languages together. `{whose}` and the like in phrases: any of these words, in any language.

    `mailboxes`: those of firms, not of people. `streets`: matched against the original text, because capitals matter.
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


class Names(NamedTuple):
    """Of all languages together, in lower case.

    `given`: common given names, not of anybody in particular. `words_too`: given names that are also words; they count
    only when capitalized, and not at the beginning of a sentence. `familiar`: well-known places, times, firms, works and
    people.
    """

    given: Words = frozenset()
    words_too: Words = frozenset()
    familiar: Words = frozenset()


class Secrets(NamedTuple):
    """How secrets are named, in all languages together. Plain words: spaces may be missing, case doesn't matter.

    `password`, `key`, `login`, `account`: words that a secret follows. `code_of` and `code`: the two parts of "door
    code". `said` and `still`: words between the name and the secret ("is", "now"); `said_closely`: the same without
    spaces. `of`: what the secret belongs to. `into`: a change to the secret. `plain`: what is said about a password
    without stating it. `counted`: follows a number that isn't a secret.
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


class Sharing(NamedTuple):
    """What keeps a statement from being shared. Matched in lower case.

    Of all languages together: `opens_order`: how a clause that gives an order begins; `ordered`: an order to the reader
    or the agent, anywhere; `confidence`: said to one person alone. Only if the text is in this language: `second_person`:
    you; `first_person`: I; `somebody`: one person who isn't named.
    """

    opens_order: Pattern = NOTHING
    ordered: Pattern = NOTHING
    confidence: Pattern = NOTHING
    second_person: Pattern = NOTHING
    first_person: Pattern = NOTHING
    somebody: Pattern = NOTHING


class Likeness(NamedTuple):
    """How two short statements are compared.

    Words: `vague`: say nothing about what is claimed; `units`: follow a figure; `negations`: of all languages together;
    `days` and `days_too`: names of days besides those in [dates], and those that are also words. `named_team`: how a team
    is named. `opposites`: pairs, a/b. `same`: words for the same thing, one line each; the first represents all.
    `numbers`: by word.
    """

    vague: Words = frozenset()
    units: Words = frozenset()
    negations: Words = frozenset()
    days: Words = frozenset()
    days_too: Words = frozenset()
    named_team: Pattern = NOTHING
    opposites: Words = frozenset()
    same: str = ""
    numbers: Mapping[str, int] = _NONE


class Shortened(NamedTuple):
    """Abbreviations that have a vowel, in lower case without the full stop; of all languages together.

    `before`: something always follows (`Mio. Euro`). `numbered`: are also words, and abbreviations before a figure
    (`fig. 3`). `last`: may end a sentence (`Inc.`, `etc.`), and do where a capital follows. `counted`: words that are
    counted by a figure with a full stop (`15. Februar`). `ordering`: stand before such a figure (`am 3. Advent`).
    """

    before: Words = frozenset()
    numbered: Words = frozenset()
    last: Words = frozenset()
    counted: Words = frozenset()
    ordering: Words = frozenset()


class Kinds(NamedTuple):
    """What makes an observation an episode or a note (B.4). Phrases; case doesn't matter.

    `temporal`: say when it happened; `weekday`: so does a day of the week, unless the text is `habitual`. `happened`: verbs
    that tell what somebody did or what came about; `note`: words of what holds. Tags in lower case.
    """

    temporal: Mapping[str, str] = _NONE
    weekday: Mapping[str, str] = _NONE
    habitual: Mapping[str, str] = _NONE
    happened: Mapping[str, str] = _NONE
    note: Mapping[str, str] = _NONE
    note_tags: Words = frozenset()
    episode_tags: Words = frozenset()


class Causes(NamedTuple):
    """Words by which a text says that it follows from what came before it (B.4), each with an example, in order.

    `markers` are no patterns but plain text in lower case, and are found wherever they stand, in texts of any language: none
    may be a part of other words.
    """

    markers: Mapping[str, str] = _NONE


class Importance(NamedTuple):
    """What makes an observation important or not (B.4). Phrases; case doesn't matter.

    `trivial`: greetings and fillers, of which a text may consist; `hedging`: how somebody says that they aren't sure;
    `technical`: words of versions and settings. `tags` in lower case.
    """

    trivial: Mapping[str, str] = _NONE
    critical: Mapping[str, str] = _NONE
    high: Mapping[str, str] = _NONE
    hedging: Mapping[str, str] = _NONE
    first_person: Mapping[str, str] = _NONE
    technical: Mapping[str, str] = _NONE
    tags: Words = frozenset()
