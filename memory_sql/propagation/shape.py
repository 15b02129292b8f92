"""What no plain statement looks like: markup, code, links, addresses, hidden characters. Whatever its language is."""

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
    r"|note(?: to \w+)?|new rules?|rules?|important|attention|override|prompt|memory)\s*[:=]"
    r"|[<>]",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"[{}]|\"\s*:\s*[\"\[\d]|(?:^|\s)(?:\$|#!)\s*[a-z/]|`|;\s*--|\|\s*(?:sh|bash)\b|&&|\|\||\b(?:rm|sudo|curl|"
    r"wget|chmod|nc|ssh)\s+[-/\w]"
    r"|\b(?:select\s+[\w*,\s]{1,80}\s+from|insert\s+into|drop\s+(?:table|database)|delete\s+from|"
    r"update\s+\w+\s+set|union\s+select"
    r"|alter\s+table|truncate\s+table|grant\s+\w+\s+on)\b|\b(?:def|class|import|lambda|eval|exec|print|"
    r"os\.system)\s*\(|\w\(\)|=>|:="
    r"|\b[A-Za-z0-9+/]{24,}={0,2}|\b(?:[0-9a-fA-F]{2}[\s:]?){10,}|(?:\\x|%|\\u)[0-9a-fA-F]{2}|==|\$\w|\\n",
    re.IGNORECASE,
)
_TOP = (
    r"(?:com|org|net|io|dev|app|co|ai|de|fr|es|it|nl|uk|eu|us|info|biz|xyz|ru|cn|tv|site|online|club|top|link|"
    r"click|page|cloud"
    r"|local|internal|lan|onion|example|test|invalid|zip|mov|ly|gg|me|to|sh)"
)
_LINK = re.compile(
    rf"\w+\s*:\s*/\s*/|\bh(?:xx|tt)ps?\b\S*[:\[(]|\bwww\s*[.\[(]|[\[({{]\s*(?:\.|dot)\s*[\])}}]|\bdot (?:com|"
    rf"org|net|io)\b"
    rf"|\b(?:javascript|data|mailto|file|ftp)\s*:\S|\b[a-z0-9-]+(?:\.[a-z0-9-]+)*\.{_TOP}(?![\w.]*\w)|"
    rf"\b\d{{1,3}}(?:\.\d{{1,3}}){{3}}\b",
    re.IGNORECASE,
)
_ADDRESS = (
    r"\b\d{1,4}[a-z]? (?:[A-Z]\w+ ){1,3}(?:street|st|road|rd|avenue|ave|lane|drive|court|square|boulevard|blvd)\b"
    r"|\b\w+(?:straße|strasse|gasse|platz|weg|allee) \d+|\bp\.? ?o\.? box\b"
)
_CONTACT = re.compile(
    rf"[\w.+-]+\s*(?:@|\(at\)|\[at\]|\uff20)\s*[\w-]+|(?<!\w)@\w+|\b\w+ at \w+ dot \w+|"
    rf"(?<![\w.]){_ADDRESS}",
    re.IGNORECASE,
)
_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b")
_PHONE = re.compile(r"\+\d[\d ()./-]{6,}\d|\b0\d[\d ()./-]{5,}\d|\b\d{3}[ ./-]\d{3}[ ./-]\d{3,4}\b")


def misshapen(text: str) -> str | None:
    if len(text) > MAX_CHARACTERS:
        return "too_long"  # first: everything below may then take its time
    if not any(character.isalnum() for character in text):
        return "empty"
    if len(text.split()) > MAX_WORDS:
        return "too_long"
    if _hides_something(text):
        return "invisible"
    shapes = (("markup", _MARKUP), ("contact", _CONTACT), ("link", _LINK), ("code", _CODE))
    found = next((reason for reason, shape in shapes if shape.search(text)), None)
    return found or ("contact" if _PHONE.search(_DATE.sub(" ", text)) else None)


def _hides_something(text: str) -> bool:
    """Characters that aren't seen or that pass for others, and letters set apart or written as figures."""
    if any(unicodedata.category(c) in _FORMAT and c not in "\n\t" for c in unicodedata.normalize("NFC", text)):
        return True
    if any(c.isalpha() and unicodedata.normalize("NFKC", c) != c for c in text):
        return True  # wide, styled and circled letters
    words = WORD.findall(text)
    return bool(_SPACED.search(text)) or any(_mixes_scripts(w) for w in words) or sum(map(_is_leet, words)) > 1


def _mixes_scripts(word: str) -> bool:
    return len({unicodedata.name(c, "?").split()[0] for c in word if c.isalpha()}) > 1


_LEET = re.compile(r"[a-z][013457@$]+[a-z]|^[013457]+[a-z]{3,}|[a-z]{2,}[013457]+$", re.IGNORECASE)


def _is_leet(word: str) -> bool:
    return bool(_LEET.search(word)) and not re.search(r"\d[./:-]\d|^v\d|^q[1-4]$", word, re.IGNORECASE)
