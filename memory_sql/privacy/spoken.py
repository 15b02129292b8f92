"""Rules for secrets named in words, built from [secrets] of all languages.

As in `secrets`, each pattern begins with something that is found quickly, and every repetition is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from memory_sql.languages.data import of_all
from memory_sql.languages.tables import Secrets, Words
from memory_sql.privacy.secrets import FORMS, SecretRule, rule

_QUOTED = r"\"[^\"\n]{3,200}\"|'[^'\n]{3,200}'|`[^`\n]{3,200}`|“[^”\n]{3,200}”|„[^“\n]{3,200}“|«[^»\n]{3,200}»"
_VALUE = rf"(?P<secret>{_QUOTED}|[^\s\"'`<>]{{3,400}})"
_ASSIGN = r"\s{0,3}(?::=|=>|->|[:=])\s{0,3}"
_KEY = (  # as in programs
    r"(?:api|access|secret|client|auth|refresh|bearer|bot|conversation|signing|encryption|deploy|webhook|license|account|"
    r"shared\s?access)[ _-]?(?:key|token|secret|signature)|tokens?|secrets?"
)


class Spoken(NamedTuple):
    """`plain`: what is said about a password without stating it.

    `into`: "changed to". `counted`: follows a number that isn't one.
    """

    rules: tuple[SecretRule, ...]
    plain: Words
    into: Words
    counted: re.Pattern[str]


@cache
def spoken() -> Spoken:
    every = tuple(of_all(Secrets).values())
    names = [name for name in Secrets._fields if name != "plain"]
    said = {name: tuple(dict.fromkeys(word for one in every for word in getattr(one, name))) for name in names}
    return Spoken(
        rules=(*FORMS, *_rules(said)),
        plain=Words().union(*(one.plain for one in every)),
        into=frozenset(said["into"]),
        counted=re.compile(rf"\s?(?:{_any_of(said['counted'])})"),
    )


def _any_of(terms: Iterable[str], space: str = r"\s?") -> str:
    return "|".join(re.escape(term).replace(r"\ ", space) for term in terms)


def _cues(terms: Iterable[str]) -> str:
    """The longest word of each term."""
    return "|".join(dict.fromkeys(max(term.split(), key=len) for term in terms))


def _rules(said: Mapping[str, Sequence[str]]) -> tuple[SecretRule, ...]:
    is_said = rf"\s{{1,3}}(?:{_any_of(said['said'])})(?:\s{{1,3}}(?:{_any_of(said['still'])}))?:?\s{{1,3}}"
    of = rf"(?:\s(?:{_any_of(said['of'])})\s[^\n.:=?!]{{1,30}}?)?"
    end = rf"(?![a-z])[\"'’)]{{0,2}}{of}"
    passwords = rf"(?:{_any_of(said['password'])}|(?<![a-z])pw|(?:(?<=[,;/&?])|(?<=[,;/&?] ))pass(?=\s?[:=]))s?"
    keys = rf"(?:{_KEY}|{_any_of(said['key'], '[ _-]?')})"
    return (
        rule(
            "password",
            f"pass|pw|{_cues(said['password'])}",
            rf"{passwords}{end}(?P<to>{_ASSIGN}|{is_said}|\s(?:{_any_of(said['into'])})\s){_VALUE}",
            "password",
            re.IGNORECASE,
        ),
        rule(
            "password",
            _cues(said["password"]),
            rf"(?:{_any_of(said['password'])})(?P<to>{_any_of(said['said_closely'])})\s{{0,3}}(?P<secret>[!-+\--~]{{4,100}})",
            "password",
        ),
        rule(
            "password",
            _cues(said["login"]),
            rf"(?:{_any_of(said['login'])})(?P<to>\s{{0,3}}(?::|=|\bare\b|\bis\b)\s{{0,3}})"
            r"[^\s/:]{1,64}\s?[/:]\s?(?P<secret>[^\s/]{4,100})",
            "password",
            re.IGNORECASE,
        ),
        rule(
            "key",
            f"key|token|secret|signature|{_cues(said['key'])}",
            rf"{keys}{end}(?:{_ASSIGN}|{is_said}|\s){_VALUE}",
            "strong",
            re.IGNORECASE,
        ),
        rule(
            "phrase",
            "phrase|mnemonic|seed|wiederherstellung",
            r"(?:seed|recovery|backup|mnemonic|wallet|wiederherstellungs?)[ -]?(?:phrase|words|wörter)?[^\n:=]{0,30}[:=]"
            r"\s{0,3}(?P<secret>(?:1\.\s?)?[a-z]{3,8}(?:[\s,]{1,2}(?:\d{1,2}\.\s?)?[a-z]{3,8}){11,23}+)(?![a-z])",
            "any",
            re.IGNORECASE,
        ),
        rule(
            "code",
            f"otp|cvv|cvc|tan|{_cues(said['code'])}",
            rf"\b(?:(?:pin|otp|tan|cv[vc]2?)(?:[ -]?(?:code|number|nummer))?|"
            rf"(?:{_any_of(said['code_of'])})[ -]?(?:{_any_of(said['code'])}))s?\b"
            rf"(?:\s(?:{_any_of(said['of'])})\s[^\n.:=?!\d]{{1,20}}?)?(?:\s{{0,3}}[:=#]\s{{0,3}}|{is_said}|\s{{1,3}})"
            rf"(?P<secret>[\"']?\d(?:[ -]?\d){{2,9}})(?![\d%/.:-]*\d|\s?(?:%|{_any_of(said['counted'])}))",
            "code",
            re.IGNORECASE,
        ),
        rule(
            "account number",
            _cues(said["account"]),
            rf"(?:{_any_of(said['account'])})\.?\s{{0,3}}(?:[:=#]|{_any_of(said['said'])})?\s{{0,3}}"
            r"(?P<secret>\d(?:[ -]?\d){5,16})(?!\d)",
            "any",
            re.IGNORECASE,
        ),
    )
