"""Forms that no plain statement has, in any language: markup, code, links, hidden characters."""

from __future__ import annotations

import re
import unicodedata

from memory_sql.propagation.tokens import WORD

MAX_WORDS = 60
MAX_CHARACTERS = 500

_FORMAT = ("Cf", "Cc", "Co", "Cs", "Cn", "Zl", "Zp", "Mn", "Me")
_SPACED = re.compile(r"(?<!\w)(?:\w[ ._*·-]{1,2}){4,}\w(?!\w)")
_MARKUP = re.compile(
    r"<\s*[/!?a-z|]|\|\s*>|\]\]\s*>|<\||\[/?(?:inst|sys|system|user|assistant)\b|<<|>>|```|~~~|#{2,}|^\s*#\s|"
    r"^\s*-{3}|-{3,}"
    r"|={3,}|&(?:lt|gt|amp|quot|#\w+);|\{\{|\}\}|\{%|\[[^\]]*\]\(|!\[|^\s*>"
    r"|(?:^|[\n.!;:\"'(])\s*(?:system|assistant|user|human|developer|tool|function|ai|bot|admin(?:istrator)?|"
    r"instructions?"
    r"|note(?: to \w+)?|new rules?|rules?|important|attention|override|prompt|memory)\s*[:=]",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"[{}]|\"\s*:\s*[\"\[\d]|(?:^|\s)(?:\$|#!)\s+[a-z/]|;\s*--|\|\s*(?:sh|bash)\b|&&|\|\||\b(?:rm|sudo|curl|"
    r"wget|chmod|nc|ssh)\s+(?:-|\w+\.)"
    r"|\b(?:select\s+[\w*,\s]{1,80}\s+from|insert\s+into|drop\s+(?:table|database)|delete\s+from\s+\w+\.|"
    r"update\s+\w+\s+set|union\s+select"
    r"|alter\s+table|truncate\s+table)\b|\b(?:lambda|eval|exec|os\.system)\s*\(|=>|:="
    r"|\b(?=[A-Za-z+/]*\d)[A-Za-z0-9+/]{24,}={0,2}|\b(?:[0-9a-f]{2}){10,}\b|(?:\\x|%|\\u)[0-9a-fA-F]{2}|==|\$[a-z{(]|\\n",
    re.IGNORECASE,
)
_LINK = re.compile(
    r"\w+\s*:\s*/\s*/|\bh(?:xx|tt)ps?\b\S*[:\[(]|\bwww\s*[.\[(]|[\[({{]\s*(?:\.|dot)\s*[\])}}]|\b\w+ dot (?:com|org|net|io)\b"
    r"|\b(?:javascript|data|mailto|file|ftp)\s*:\S|\b[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,10}/\S"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}\b",
    re.IGNORECASE,
)


def misshapen(text: str) -> str | None:
    if len(text) > MAX_CHARACTERS:
        return "too_long"  # checked first, since the checks below take longer on long texts
    if not any(character.isalnum() for character in text):
        return "empty"
    if len(text.split()) > MAX_WORDS:
        return "too_long"
    if _hides_something(text):
        return "invisible"
    shapes = (("markup", _MARKUP), ("link", _LINK), ("code", _CODE))
    return next((reason for reason, shape in shapes if shape.search(text)), None)


def _hides_something(text: str) -> bool:
    """Invisible characters, look-alikes, spaced-out letters, and digits in place of letters."""
    if any(unicodedata.category(c) in _FORMAT and c not in "\n\t" for c in unicodedata.normalize("NFC", text)):
        return True
    if any(c.isalpha() and unicodedata.normalize("NFKC", c) != c for c in text):
        return True  # full-width, styled and circled letters
    words = WORD.findall(text)
    return bool(_SPACED.search(text)) or any(_mixes_scripts(w) for w in words) or sum(map(_is_leet, words)) > 1


def _mixes_scripts(word: str) -> bool:
    return len({unicodedata.name(c, "?").split()[0] for c in word if c.isalpha()}) > 1


_LEET = re.compile(r"[a-z][013457@$]+[a-z]|^[013457]+[a-z]{3,}|[a-z]{2,}[013457]+$", re.IGNORECASE)


def _is_leet(word: str) -> bool:
    return bool(_LEET.search(word)) and not re.search(r"\d[./:-]\d|^v\d|^q[1-4]$", word, re.IGNORECASE)
