"""Removes contact data from what more than one person may know. Found by its form, in any language."""

from __future__ import annotations

import re
from functools import cache

from memory_sql.privacy.personal import PHONES, rules

CUT = "[contact]"
TITLE = re.compile(r"\b(?:Herrn?|Frau|Mrs?|Ms|Dr|Prof|Mme|Sra?|Dott)\b\.?\s+(?:\w+\.\s*)*[^\W\d_]")
_AT = re.compile(r"\s?[(\[]at[)\]]\s?| at |\uff20")
_DOT = re.compile(r"\s?[(\[]dot[)\]]\s?| dot ")
REACHES = frozenset({"contact", "location"})  # the categories that are removed here


@cache
def _forms() -> tuple[re.Pattern[str], ...]:
    """Compiled only when first needed: that takes longer than importing most modules."""
    return (
        re.compile(
            r"(?<![\w.+%-])[\w.+%-]{1,500}+(?:@|\uff20|\s?\(at\)\s?|\s?\[at\]\s?)[\w-]{1,63}"
            r"(?:(?:\.|\s?(?:\(dot\)|\[dot\])\s?)[\w-]{1,63}){0,4}(?<![.-])",
            re.IGNORECASE,
        ),
        re.compile(r"(?<![\w.+-])[\w.+-]{1,64}+ at [\w-]{1,63} dot [\w-]{1,24}\b", re.IGNORECASE),
        re.compile(r"(?<!\w)@\w[\w.-]{0,63}(?<![.-])"),
        re.compile(
            r"(?<![\w.:/-])\b\d{1,4}(?:-\d{1,4})?[a-z]? (?:[A-Z]\w+ ){1,3}"
            r"(?:[Ss]treet|[Ss]t|[Rr]oad|[Rr]d|[Aa]venue|[Aa]ve|[Ll]ane|[Bb]oulevard|[Bb]lvd)\b"
        ),
        re.compile(r"\b[Pp]\.? ?[Oo]\.? ?[Bb]ox \d+"),
        rules().streets,
        PHONES,
        re.compile(r"(?<![\w.,/-])\+\d[\d ()./-]{6,20}\d"),
        re.compile(r"(?<![\w.,/:-])\(?0\d[\d ()/-]{5,18}\d(?![\d%])"),
        re.compile(r"(?<![\w.,/-])\d{3}[ -]\d{3}[ -]\d{4}(?![\w-])"),
    )


def without_contact(text: str) -> str:
    """The text with `[contact]` in place of each e-mail or postal address, handle and telephone number."""
    for form in _forms():
        text = form.sub(CUT, text)
    return text


def other_contact(one: str, other: str) -> bool:
    """Whether both hold contact data, and not the same: then they contradict each other as different figures do.

    Where it was cut out before, nobody knows whether it was the same.
    """
    mine = _contact_of(one)
    return bool(mine) and bool(theirs := _contact_of(other)) and (mine != theirs or CUT in mine)


def _contact_of(text: str) -> tuple[str, ...]:
    """In the order of the text: what is for one thing and what for another may be the other way round."""
    found = [(match.start(), CUT) for match in re.finditer(re.escape(CUT), text)]
    for form in _forms():
        found += [(match.start(), _plain(match[0])) for match in form.finditer(text)]
        text = form.sub(lambda match: "\0" * len(match[0]), text)
    return tuple(plain for _, plain in sorted(found))


def _plain(contact: str) -> str:
    """Of a telephone number its digits; of an address its dots and dashes too, which tell it from others."""
    if not any(character.isalpha() for character in contact):
        return re.sub(r"\D", "", contact)
    plain = _AT.sub("@", _DOT.sub(".", contact.casefold()))
    return plain if "@" in plain else re.sub(r"[\W_]+", " ", plain).strip()


def names_whom_it_reaches(text: str) -> bool:
    """Whether the contact data is plainly a person's: a title stands before a name, or an address has a word of the text."""
    words = {word.casefold() for word in re.findall(r"[^\W\d_]{3,}", without_contact(text))}
    addresses = re.findall(r"([\w.+-]+)(?:@|\uff20)", text)
    return bool(TITLE.search(text)) or any(
        part.casefold() in words for address in addresses for part in re.findall(r"[^\W\d_]{3,}", address)
    )
