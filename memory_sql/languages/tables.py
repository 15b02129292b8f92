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
class NotEnglish:
    """By which an English statement is distinguished from one of this language: no English words, or hardly any.

    One of `surely` is enough, of `hardly` it takes two.
    """

    surely: Words = frozenset()
    hardly: Words = frozenset()


@dataclass(frozen=True, slots=True)
class Recall:
    """How a message asks for what was said before. Matched in lower case against one sentence without its closing marks,
    with straight apostrophes and single spaces.

    `anywhere`: it asks for what was said, whatever its form. `in_request`: if it is a question or a request. `of_past`
    and `of_user`: questions about what the user did, and about what is the user's.

    `to_store`: it tells something to remember. `frame`: polite words before the question proper. `question`: it begins
    like one. `request`: it asks to be told or done something. `impersonal`: a question whose answer is in nobody's memory,
    though it says "I" or names a thing of mine. `addressed`: it speaks to the other side. `telling`: a request to be told
    about something. `past_tense`: a sign of the past, or a question who somebody is. `supposing`: it tells of people who
    may not exist. `subject_follows`: words that a subject follows in a question. `capitals_are_names`: no other nouns are
    capitalised.

    Of all languages together: `task`: what follows its colon is to be worked on. `conjunctions`: a question may follow
    after a comma and one of these. `articles`: a fragment begins with one. `determiners`: what follows is a thing, whatever
    its capital. `name_links`: inside a name. `interjections`: who is named next is spoken to.
    """

    anywhere: Phrases = Phrases()
    in_request: Phrases = Phrases()
    of_past: Phrases = Phrases()
    of_user: Phrases = Phrases()
    to_store: Pattern = NOTHING
    frame: Pattern = NOTHING
    question: Pattern = NOTHING
    request: Pattern = NOTHING
    impersonal: Pattern = NOTHING
    addressed: Pattern = NOTHING
    telling: Pattern = NOTHING
    past_tense: Pattern = NOTHING
    supposing: Pattern = NOTHING
    subject_follows: Words = frozenset()
    capitals_are_names: bool = True
    task: Alternatives = ()
    conjunctions: Words = frozenset()
    articles: Words = frozenset()
    determiners: Words = frozenset()
    name_links: Words = frozenset()
    interjections: Words = frozenset()


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
    """`when`: the query asks for a time. `forms`: words that no stemmer brings together, a line for each."""

    when: Pattern = NOTHING
    forms: str = ""


@dataclass(frozen=True, slots=True)
class Dates:
    """Words are in lower case. In `patterns`, one for each way to name a date, `{name}` is any word of that table."""

    numbers: Mapping[str, int] = _table()
    units: Mapping[str, str] = _table()
    weekdays: Mapping[str, int] = _table()
    months: Mapping[str, int] = _table()
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
    """By what a plain statement about common work is recognised: what may be shared with more people than one.

    Words. `orders`: verbs that open an order; `nouns_too`: those of them that are nouns as well, and count only before
    one of `objects`. `saying`, `doing`, `roles`, `possessed`: what a person may do, be and have at work.
    `verbs_of_persons`, `done_by_things`, `done_to_persons`, `states_of_things`: whether an unknown name is a person's.
    `feeling`: what a group may do and a person not. `judging`: what isn't said of people. `persons`, `groups`, `titles`:
    who. `work`: what shared matters are about; `weak_work`: those that much else is said with. `private`, `chatting`:
    what keeps a statement where it is. `vague`: says nothing of what is claimed.

    Patterns. `asks`, `unresolved`, `first_person`, `to_reader`, `ordered`, `singled_out`: what no shared statement holds.
    `technical`: harmless senses of private words; `private_phrases`: those of several words.

    `opposites`: pairs, a/b. `same`: words for one thing, a line for each, the first stands for all. `numbers`: by word.
    """

    orders: Words = frozenset()
    nouns_too: Words = frozenset()
    objects: Words = frozenset()
    polite: Words = frozenset()
    fillers: Words = frozenset()
    saying: Words = frozenset()
    doing: Words = frozenset()
    roles: Words = frozenset()
    verbs_of_persons: Words = frozenset()
    feeling: Words = frozenset()
    judging: Words = frozenset()
    groups: Words = frozenset()
    persons: Words = frozenset()
    titles: Words = frozenset()
    gendered: Words = frozenset()
    work: Words = frozenset()
    weak_work: Words = frozenset()
    private: Words = frozenset()
    chatting: Words = frozenset()
    vague: Words = frozenset()
    possessed: Words = frozenset()
    states_of_things: Words = frozenset()
    done_by_things: Words = frozenset()
    done_to_persons: Words = frozenset()
    things_can: Words = frozenset()
    units: Words = frozenset()
    days: Words = frozenset()
    days_too: Words = frozenset()
    negations: Words = frozenset()
    modal: Words = frozenset()
    prepositions: Words = frozenset()
    to_things: Words = frozenset()
    no_past: Words = frozenset()
    like: Words = frozenset()
    articles: Words = frozenset()
    being: Words = frozenset()
    before_object: Words = frozenset()
    links: Words = frozenset()
    asks: Pattern = NOTHING
    unresolved: Pattern = NOTHING
    first_person: Pattern = NOTHING
    to_reader: Pattern = NOTHING
    ordered: Pattern = NOTHING
    singled_out: Pattern = NOTHING
    technical: Pattern = NOTHING
    private_phrases: Pattern = NOTHING
    clause: Pattern = NOTHING
    named_team: Pattern = NOTHING
    opposites: Words = frozenset()
    same: str = ""
    numbers: Mapping[str, int] = _table()
