"""What may be shared with a wider scope: rules before a model sees a statement, and after it has rewritten one.

Pure, local, in time linear in the text. The model is taken to obey whoever wrote the text, so what it answers counts for
nothing here. Rules are positive: what isn't recognised as a plain English statement about shared work is withheld. They
read forms, not minds: a false statement in an innocent form passes, and has to be stopped by asking for several sources.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from memory_sql.languages.words import fold
from memory_sql.proper_names import ALSO_WORDS, FAMILIAR, GIVEN
from memory_sql.screening_words import (
    CHATTING,
    DOING,
    DONE_BY_THINGS,
    DONE_TO_PERSONS,
    EVERYBODY,
    FEELING,
    FOREIGN_STRONG,
    FOREIGN_WEAK,
    FUNCTION_WORDS,
    GROUPS,
    GUARDS,
    HANDED_OUT,
    JUDGING,
    LOOSENED,
    MONTHS_AND_DAYS,
    NEGATIONS,
    NOUNS_TOO,
    NUMBER_WORDS,
    OPPOSITES,
    ORDER_OBJECTS,
    ORDERS,
    PERSONS,
    POSSESSED,
    PRIVATE,
    PRIVATE_PHRASES,
    READERS,
    ROLES,
    SAME_WORDS,
    SAYING,
    STATES_OF_THINGS,
    TECHNICAL,
    UNITS,
    VERBS_OF_PERSONS,
    WEAK,
    WEAK_WORK,
    WITHOUT_LIMIT,
    WORK,
)

MAX_WORDS = 60
MAX_CHARACTERS = 500
CONTAINED = 0.7  # how alike a claim is to one that says the same and more
ALIKE = 0.65  # from here on two statements claim the same: measured on the table in tests/unit/alike.py
GROUNDED = 0.5  # least share of a rewrite's content words that one source must hold

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
    return _misshapen(text) or _unfit(text, _known(names, text))


def leaks(text: str, *, names: Collection[str], sources: Sequence[str], may_name: bool = False) -> str | None:
    """Why a rewritten statement must not be stored in the wider scope, one of `LEAKS`; None: it may be.

    `sources` are the texts that it was made from; every figure, date and name in it must stand in one of them.
    """
    known = _known(names, text)
    return (
        _misshapen(text)
        or (None if may_name else _names_somebody(text, known))
        or _singles_somebody_out(text)
        or _unfit(text, known)
        or _ungrounded(text, sources)
    )


def same_claim(a: str, b: str) -> float:
    """How alike two short statements are, 0 to 1; from `ALIKE` on they claim the same. Symmetric.

    0 where figures, dates, negation or a pair of opposites contradict, or where nothing is claimed. Of each the first
    `MAX_CHARACTERS` count.
    """
    one, other = _claim(a[:MAX_CHARACTERS]), _claim(b[:MAX_CHARACTERS])
    if not one.words or not other.words or _contradict(one, other):
        return 0.0
    shared = len(one.words & other.words)
    jaccard = shared / len(one.words | other.words)
    least = min(len(one.words), len(other.words))
    return max(jaccard, CONTAINED) if shared == least >= 2 else jaccard


# Shape: what no plain statement looks like

_FORMAT = ("Cf", "Cc", "Co", "Cs", "Cn", "Zl", "Zp", "Mn", "Me")
_WORD = re.compile(r"[^\W_](?:[\w'’.+#/&-]*[\w+#])?")
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


def _misshapen(text: str) -> str | None:
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
    words = _WORD.findall(text)
    return bool(_SPACED.search(text)) or any(_mixes_scripts(w) for w in words) or sum(map(_is_leet, words)) > 1


def _mixes_scripts(word: str) -> bool:
    return len({unicodedata.name(c, "?").split()[0] for c in word if c.isalpha()}) > 1


_LEET = re.compile(r"[a-z][013457@$]+[a-z]|^[013457]+[a-z]{3,}|[a-z]{2,}[013457]+$", re.IGNORECASE)


def _is_leet(word: str) -> bool:
    return bool(_LEET.search(word)) and not re.search(r"\d[./:-]\d|^v\d|^q[1-4]$", word, re.IGNORECASE)


# What is said, and to whom


@dataclass(frozen=True, slots=True)
class _Known:
    """Names of people: `whole` ones as folded words, by their first, and the `parts` that name them by themselves."""

    whole: Mapping[str, Sequence[tuple[str, ...]]]
    parts: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Token:
    """A word: `key` folded and without possessive; `owns`: it had one; `first`: it begins a sentence."""

    word: str
    key: str
    owns: bool
    first: bool

    @property
    def capital(self) -> bool:
        return self.word[0].isupper()


_POSSESSIVE = re.compile(r"(?:['’]s|(?<=s)['’])$", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?…])[\"”’')]*\s+|\n+")
_CLAUSE = re.compile(
    r"[,;:()–—]\s+|\s-\s|\s+(?:and|but|then|so|because|while|whereas|although|though|which|that|who|since|as|"
    r"if|when|after|before)\s+",
    re.IGNORECASE,
)
_STRAIGHT = str.maketrans({"\u2019": "'", "\u2018": "'", "`": "'", "\u00b4": "'"})


def _unfit(text: str, known: _Known) -> str | None:
    plain = text.translate(_STRAIGHT)
    lower = " ".join(plain.lower().split())
    sentences = [part for part in _SENTENCE.split(plain) if any(c.isalnum() for c in part)]
    if "?" in plain or any(_ASKS.match(sentence) for sentence in sentences):
        return "question"
    if _is_order(lower, sentences):
        return "instruction"
    if "!" in plain or _UNRESOLVED.match(plain) or any(_is_personal(sentence, known) for sentence in sentences):
        return "personal"
    if not all(_is_english(sentence) for sentence in sentences):
        return "language"
    if _FIRST_PERSON.search(lower):
        return "first_person"
    return None if all(_is_about_work(sentence) for sentence in sentences) else "personal"


_ASKS = re.compile(
    r"\s*[\"'(]*(?:(?:what|when|where|who|whom|whose|which|why|how)\s+(?:is|are|was|were|do|does|did|has|have|"
    r"can|could|will|would|"
    r"should|much|many|long|about)\b|(?:is|are|was|were|do|does|did|can|could|will|would|should|may|shall|has|have) "
    r"(?:the|a|an|we|it|they|there|you|i|he|she|this|that|our|my|any)\b)",
    re.IGNORECASE,
)
# Who or what is meant stands in another text.
_UNRESOLVED = re.compile(r"\s*(?:they|them|their|it|its|this|that|these|those)(?:'\w+)?\b", re.IGNORECASE)
_FIRST_PERSON = re.compile(r"(?<![\w'])(?:i|i'm|i've|i'd|i'll|me|my|mine|myself)(?![\w'-])")
_TO_READER = re.compile(
    r"(?<![\w'])(?:you|your|yours|yourself|y'all|u|ya)(?![\w-])|\byou'(?:re|ve|ll|d)\b"
    r"|\b(?:previous|prior|above|earlier|foregoing|preceding|system) (?:instructions?|prompts?|rules?|"
    r"messages?|orders?|directives?)\b"
    r"|\bsystem prompt|\bdeveloper mode|\bjailbr\w+|\bprompt inject\w+|\bdan mode|\b(?:this|these|"
    r"the following|that) (?:memor(?:y|ies)|"
    r"observations?|statements?|facts?|notes?|sentences?|texts?|messages?|rules?|instructions?|knowledge)\b"
    r"|\b(?:universal(?:ly)?|general|common|collective|shared|public) (?:knowledge|truth|fact|memory|scope|"
    r"rule|law)\b|\buniversally\b"
    r"|\bpropagat\w+|\bremember(?:s|ed)?\b|\bmemori[sz]e\w*|\bin (?:your|the) memory\b|\bfrom now on\b|"
    r"\bhenceforth\b|\bas of now\b"
    r"|\bon behalf of\b|\bit is (?:the |our |company |official |a )*(?:policy|rule|law|order|mandatory|"
    r"required|imperative)\b"
    r"|\bwe (?:must|need to|have to|should) (?:all|always|never)\b|\bfor (?:everyone|everybody|all (?:users|"
    r"groups|agents|members))\b"
    r"|\b(?:tell|inform|notify|warn|advise|instruct|teach) (?:all|every|any|the|each|people|them|him|her|us|me)\b"
    r"|\b(?:is|are|be) (?:instructed|ordered|commanded|obliged|told|advised|asked|required|expected|supposed|"
    r"requested|authori[sz]ed|"
    r"permitted|allowed|entitled) (?:to|by)\b"
    r"|\b(?:when|if|whenever|once|should|every time|each time|in case|as soon as|upon)\b[^.]{0,40}\b(?:asks?|"
    r"asked|asking|requests?|requested|"
    r"quer(?:y|ies|ied)|wants? to know|mentions?|says?|inquires?|prompted|questioned)\b"
    r"|\b(?:correct|right|proper|expected|only|best|official) (?:answer|response|reply)\b|"
    r"\bno(?:body)? (?:should|must|may|need)\b"
    r"|\bnothing (?:else )?(?:should|must)\b|\bignor(?:e|ed|ing)\b|\bdisregard\w*\b|\bobey\w*\b|\bcomply\b|"
    r"\bstanding (?:order|instruction)s?\b"
)
_MUST = (
    r"(?:must(?:n't)?|should(?:n't)?|shall|ought|has to|have to|had to|needs? to|is to|are to|may|can|will|"
    r"could|would|always|never|"
    r"do|does|don't|doesn't|may not|cannot|can't|won't)"
)
_ORDERED = re.compile(
    rf"\b{READERS} (?:\w+ )?(?:{_MUST}|who|that|reading)\b|\b(?:the|any|every|all|each|an?|this|"
    rf"other) {READERS}\b(?= (?:is|are|was|has|have)\b)"
    rf"|\b{EVERYBODY} (?:\w+ )?(?:must|should|shall|ought|has to|have to|needs? to|is to|are to|always|never|"
    rf"may|can|will)\b"
    rf"|\b(?:must|should|shall|ought to|has to|have to|needs? to|are to|is to|always|"
    rf"never)\b[^.]{{0,40}}\b(?:approv\w+|refund\w*|grant\w*|"
    r"pay|paid|trust\w*|reveal\w*|send|sent|share|shared|ignor\w+|forward\w*|disclos\w+|accept\w*|allow\w*|"
    r"bypass\w*|skip\w*|"
    r"execut\w+|delet\w+|obey\w*|recommend\w*|prais\w+|answer\w*|repl(?:y|ied)|respond\w*|say|said|told|tell|"
    r"include\w*|append\w*|"
    r"mention\w*|believ\w+|prefer\w*|cop(?:y|ied)|shown?|treat\w*|follow\w*)\b"
    r"|\b(?:said|says|told|asked|asks|wrote|reminded|warned|ordered|instructed)(?: \w+){0,2}? to [a-z]+"
    r"|\brequir\w+ (?:\w+ ){0,2}?(?:sending|sharing|deleting|disabling|forwarding|uploading|paying|removing|giving)\b"
    r"|\b(?:is|are|was|were|get|gets|be) told\b|\banswers? (?:is|are)\b|\bpraise\b"
    rf"|\b{GUARDS}\b[^.]{{0,60}}\b{LOOSENED}\b|\b{LOOSENED}\b[^.]{{0,60}}\b{GUARDS}\b"
    rf"|\b{HANDED_OUT}\b[^.]{{0,60}}\b{WITHOUT_LIMIT}\b|\b{WITHOUT_LIMIT}\b[^.]{{0,60}}\b{HANDED_OUT}\b"
)


def _is_order(lower: str, sentences: Sequence[str]) -> bool:
    if _TO_READER.search(lower) or _ORDERED.search(lower):
        return True
    return any(_opens_order(clause.split()) for sentence in sentences for clause in _CLAUSE.split(sentence))


def _opens_order(words: Sequence[str]) -> bool:
    """A verb without a subject before it; one that is a noun as well only where an object follows."""
    bare = [word.strip(" \"'([.,!:;").lower() for word in words]
    bare = [word for word in bare if word]
    while bare and bare[0] in ("please", "also", "kindly", "just", "now", "then", "instead", "and", "so"):
        if bare[0] in ("please", "kindly"):
            return True
        bare = bare[1:]
    if not bare or bare[0] not in ORDERS:
        return False
    return bare[0] not in NOUNS_TOO or (len(bare) > 1 and bare[1] in ORDER_OBJECTS)


def _is_english(sentence: str) -> bool:
    """Small English words, and none of another language."""
    keys = [found.lower() for found in _WORD.findall(sentence)]
    if any(ord(c) > 0x24F for c in sentence if c.isalpha()) or FOREIGN_STRONG.intersection(keys):
        return False
    if sum(key in FOREIGN_WEAK for key in keys) > 1 or sum(not key.isascii() for key in keys) > 2:
        return False
    english = sum(key in FUNCTION_WORDS for key in keys)
    return english >= max(1, len(keys) // 8) or (len(keys) <= 7 and sum(key in WORK for key in keys) >= 2)


# Whose matter it is

_STRONG = WORK - WEAK_WORK
_LIFE = PRIVATE | CHATTING
_NOT_WORK = frozenset("he she him his her hers himself herself he's she's he'd she'd he'll she'll".split())
_TECHNICAL = re.compile(rf"\b(?:{TECHNICAL})\b")
_PRIVATE = re.compile(rf"\b(?:{PRIVATE_PHRASES})\b")
_JOINED = re.compile(r"[-/_+&.]")
_MODAL = frozenset("can cannot can't could will would may might must should never always does doesn't didn't".split())
_THINGS_CAN = (
    DONE_BY_THINGS | WORK | frozenset("be not ship launch run use support need start end move go replace take".split())
)
_PREPOSITIONS = frozenset("to for about at in on with from of".split())
_TO_THINGS = frozenset("of for in on from to with than over via into the a an use uses using".split())
_NO_PAST = frozenset("need feed speed exceed proceed succeed embed".split())
_LIKE = frozenset("customer client colleague like named engineer".split())
_ARTICLES = frozenset("a an the our".split())
_BEING = frozenset("is was has had got gets becomes".split())
_BEFORE_OBJECT = frozenset("by with to from contact via and or for".split())
_LINKS = frozenset("is are was were be am also now currently still already will has had have been the a an on".split())


def _is_personal(sentence: str, known: _Known) -> bool:
    tokens = _tokens(sentence)
    people = _people(tokens, known)
    lower = sentence.lower()
    if not people:
        lower = _TECHNICAL.sub("work", lower)
    words = {part for found in _WORD.findall(lower) for part in (found, *_JOINED.split(found))}
    words |= {token.key for token in tokens if people}
    if _PRIVATE.search(lower) or words & (_NOT_WORK | _reserved(sentence, bool(people))):
        return True
    if words & JUDGING and any(not _tells(tokens, end) for _, end in people):
        return True
    if any(_feels(tokens, position) for position in range(len(tokens))):
        return True
    return any(not _works(tokens, start, end) for start, end in people)


def _is_unknown_person(tokens: Sequence[_Token], position: int) -> bool:
    """A name that no list knows, where people are named: it owns, does or is what things don't, or it did something."""
    token = tokens[position]
    if not token.capital or _is_ordinary(token.key) or token.key in MONTHS_AND_DAYS:
        return False
    before = tokens[position - 1].key if position else ""
    if before in _LIKE or (before == "as" and position > 1 and tokens[position - 2].key == "such"):
        return True
    if before in GROUPS or before in WORK or before in _TO_THINGS:
        return False
    if token.owns:
        return True
    if before == "by" or before in DONE_TO_PERSONS:
        return not token.word.isupper()
    return position + 1 < len(tokens) and _acts(tokens[position + 1 :])


def _acts(rest: Sequence[_Token]) -> bool:
    """The words begin with the verb of a person, as far as that can be told from a thing's."""
    verb = rest[0].key
    if verb in _BEING:
        return not _is_state(rest[1:])
    if verb in DONE_BY_THINGS:
        return False
    if verb in WORK:  # `Kemal reviews the code`, but `Nightly builds fail`
        return verb in DOING and len(rest) > 1 and (rest[1].key in ORDER_OBJECTS or rest[1].key in WORK)
    if verb in _MODAL:
        return len(rest) > 1 and rest[1].key not in _THINGS_CAN and not rest[1].key.endswith("ed")
    if verb in FUNCTION_WORDS or rest[0].capital:
        return verb in VERBS_OF_PERSONS or verb in ("who", "whose")
    return (
        verb in VERBS_OF_PERSONS
        or verb in SAYING
        or verb in DOING
        or (verb.endswith(("s", "ed")) and verb not in _NO_PAST)
    )


def _is_state(rest: Sequence[_Token]) -> bool:
    """Where or how a thing is, or what work is: `in beta`, `deployed`, `the gateway of …`."""
    state = rest[0].key if rest else ""
    if state in STATES_OF_THINGS or state[:1].isdigit() or state.endswith(("ed", "en")):
        return True
    return state not in JUDGING and any(token.key in WORK for token in rest[:3])


def _reserved(sentence: str, people: bool) -> frozenset[str]:
    """Private words; those of liking and wanting a group may have, a person not."""
    group = not people and any(found.lower() in GROUPS for found in _WORD.findall(sentence))
    return _LIFE - FEELING if group else _LIFE


def _feels(tokens: Sequence[_Token], position: int) -> bool:
    """Somebody who isn't known as a group likes, wants or believes: `Kemal prefers`, `an engineer hopes`."""
    token = tokens[position]
    if token.key not in FEELING or position == 0:
        return False
    before = tokens[max(0, position - 6) : position]
    return not any(other.key in GROUPS for other in before)


def _people(tokens: Sequence[_Token], known: _Known) -> list[tuple[int, int]]:
    """Where people stand, each as the positions of the first word and after the last."""
    found: list[tuple[int, int]] = []
    position = 0
    while position < len(tokens):
        end = _end_of_person(tokens, position, known)
        if end > position:
            found.append((position, end))
        position = max(end, position + 1)
    return found


_TITLES = frozenset("mr mrs ms mx dr prof professor herr frau monsieur madame señor señora sir lady".split())


def _end_of_person(tokens: Sequence[_Token], start: int, known: _Known) -> int:
    token = tokens[start]
    for name in known.whole.get(token.key, ()):
        if tuple(other.key for other in tokens[start : start + len(name)]) == name:
            return start + len(name)
    after = tokens[start + 1] if start + 1 < len(tokens) else None
    if token.key in _TITLES and after and after.capital:
        return start + 2
    if token.key in PERSONS and not (after and not token.owns and after.key in WORK):
        return start + 1
    if not _is_given(tokens, start, known) and not _is_unknown_person(tokens, start):
        return start
    end = start + 1
    while end < len(tokens) and not tokens[end - 1].owns and tokens[end].capital and tokens[end].key not in WORK:
        end += 1
    return end


def _is_given(tokens: Sequence[_Token], position: int, known: _Known) -> bool:
    token = tokens[position]
    if token.key in known.parts:
        return token.capital or not _is_ordinary(token.key)
    if token.key in MONTHS_AND_DAYS:
        return False
    after = tokens[position + 1].key if position + 1 < len(tokens) else ""
    if token.first and token.key in ALSO_WORDS and after in WORK - DOING:
        return False  # `Grant applications`, `Max file size`
    return token.key in _GIVEN and (token.capital or token.key not in ALSO_WORDS)


def _is_ordinary(key: str) -> bool:
    return key in _ORDINARY


def _works(tokens: Sequence[_Token], start: int, end: int) -> bool:
    """What is said of a person concerns work: it says something, does something with it, or has a role in it."""
    rest = tokens[end:]
    if tokens[end - 1].owns:
        return any(token.key in POSSESSED for token in rest[:2])
    while len(rest) > 1 and rest[0].key in ("and", "or"):
        rest = rest[2:]  # the other one is looked at by itself
    verb = next((token.key for token in rest if token.key not in _LINKS), "")
    before = next((token.key for token in reversed(tokens[:start]) if token.key not in _ARTICLES), "")
    if before in _BEFORE_OBJECT and (not rest or rest[0].key not in VERBS_OF_PERSONS):
        return True
    if verb in SAYING:
        return not _is_told_on(rest)
    if verb in DOING or verb in ROLES:
        return any(token.key in WORK for token in rest)
    roles = any(token.key in ROLES for token in tokens[:start])
    return not rest and roles


def _tells(tokens: Sequence[_Token], end: int) -> bool:
    return next((token.key in SAYING for token in tokens[end:] if token.key not in _LINKS), False)


def _is_told_on(rest: Sequence[_Token]) -> bool:
    """Somebody is the object, not the subject of what is said: `reported Tadeusz to the board`."""
    after = next((number for number, token in enumerate(rest) if token.key in SAYING), 0) + 1
    if after >= len(rest) or not rest[after].capital:
        return False
    return after + 1 >= len(rest) or rest[after + 1].key in _PREPOSITIONS


def _is_about_work(sentence: str) -> bool:
    """A word of work, or two of those that also have other uses, or one of them with a date or figure."""
    keys = {token.key for token in _tokens(sentence)}
    if any(_stem(key) in _strong_stems() for key in keys):
        return True
    dated = any(key[0].isdigit() or key in MONTHS_AND_DAYS or key in NUMBER_WORDS for key in keys)
    return len(keys & WEAK_WORK) + dated >= 2


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    for sentence in _SENTENCE.split(text.translate(_STRAIGHT)):
        for number, found in enumerate(_WORD.findall(sentence)):
            bare = _POSSESSIVE.sub("", found) or found
            tokens.append(_Token(found, fold(bare), bare != found, number == 0))
    return tokens


# Names

_ORDINARY = ALSO_WORDS | FUNCTION_WORDS | WORK | FAMILIAR | GROUPS | NUMBER_WORDS.keys() | ORDERS | JUDGING
_GIVEN = frozenset(fold(name) for name in GIVEN)
_PRONOUN = re.compile(
    r"(?<![\w'])(?:he|she|him|his|her|hers|himself|herself|themself|he's|she's|they're|theirs|someone|"
    r"somebody|anyone|anybody)(?![\w-])"
    r"|(?<![\w'])(?:one|a|an|the|another|certain|this|that|each|every) (?:\w+ )?(?:"
    + "|".join(sorted(PERSONS))
    + r")(?:'s)?(?![\w-])"
    r"(?! (?:" + "|".join(sorted(WORK)) + r")\b)|^they\b"
)


def _known(names: Iterable[str], text: str) -> _Known:
    """Those of which at least a part may stand in the text: a group may have thousands."""
    folded = fold(text[:MAX_CHARACTERS])
    near = (name[:MAX_CHARACTERS] for name in names if _may_stand_in(name[:MAX_CHARACTERS], folded))
    words = {tuple(token.key for token in _tokens(name)) for name in near}
    whole: dict[str, list[tuple[str, ...]]] = {}
    for name in words:
        if name and (len(name) > 1 or not _is_ordinary(name[0])):
            whole.setdefault(name[0], []).append(name)
    parts = frozenset(part for name in words for part in name if len(part) >= 3 and part not in FUNCTION_WORDS)
    return _Known(whole, parts)


def _may_stand_in(name: str, folded: str) -> bool:
    return any(part in folded for part in (name.lower() if name.isascii() else fold(name)).replace("'", " ").split())


def _names_somebody(text: str, known: _Known) -> str | None:
    tokens = _tokens(text)
    for position in range(len(tokens)):
        if tokens[position].key not in PERSONS and _end_of_person(tokens, position, known) > position:
            return "name"
        if any(_is_name(part, known) for part in _JOINED.split(tokens[position].key)):
            return "name"
    return None


def _is_name(part: str, known: _Known) -> bool:
    """A part of a compound (`anna_smith`, `Anna/Tom`) that is nothing but a name."""
    return part not in _ORDINARY and part not in MONTHS_AND_DAYS and (part in known.parts or part in _GIVEN)


def _singles_somebody_out(text: str) -> str | None:
    return "pronoun" if _PRONOUN.search(" ".join(text.translate(_STRAIGHT).lower().split())) else None


# Whether it comes from its sources


@dataclass(frozen=True, slots=True)
class _Claim:
    """Stems of the content words, the figures and dates, and how many negations."""

    words: frozenset[str]
    figures: frozenset[str]
    negations: int


_SMALL = FUNCTION_WORDS | NUMBER_WORDS.keys()
_FIGURE = re.compile(r"\d+(?:[.,:/-]\d+)*")
_ENDINGS = ("ions", "ion", "ments", "ment", "ings", "ing", "ies", "ied", "ers", "ed", "es", "er", "ly", "s", "e")


def _ungrounded(text: str, sources: Sequence[str]) -> str | None:
    sources = [source[:MAX_CHARACTERS] for source in sources]  # longer ones were withheld
    claims = [_claim(source) for source in sources]
    known = frozenset().union(*(claim.figures for claim in claims)) if claims else frozenset()
    own = _claim(text)
    if not own.figures <= known or not _proper(text) <= _all_keys(sources):
        return "ungrounded"
    grounded = any(_stems_from(own, claim) for claim in claims)
    return None if grounded else "ungrounded"


def _stems_from(own: _Claim, source: _Claim) -> bool:
    if bool(own.negations) != bool(source.negations) or _opposed(own, source):
        return False
    return bool(own.words) and len(own.words & source.words) / len(own.words) >= GROUNDED


def _proper(text: str) -> frozenset[str]:
    """Words with a capital that names begin with; at the start of a sentence only if they are no common words."""
    return frozenset(
        token.key
        for token in _tokens(text)
        if token.capital and token.key not in _SMALL and not (token.first and (token.key in WORK | GROUPS))
    )


def _all_keys(sources: Iterable[str]) -> frozenset[str]:
    return frozenset(token.key for source in sources for token in _tokens(source))


def _claim(text: str) -> _Claim:
    keys = [token.key for token in _tokens(_without_team_names(text))]
    figures = {NUMBER_WORDS.get(key, key) for key in keys if key in NUMBER_WORDS or _FIGURE.fullmatch(key)}
    figures.update(_FIGURE.findall(text))
    figures.update(
        f"{NUMBER_WORDS.get(key, key)} {_stem(unit)}"
        for key, unit in pairwise(keys)
        if key in NUMBER_WORDS or key.isdigit()
        if unit in UNITS
    )
    figures.update(SAME_WORDS.get(key, key) for key in keys if key in MONTHS_AND_DAYS - {"may", "mar", "sat", "sun"})
    negations = sum(key in NEGATIONS or key.endswith("n't") for key in keys)
    words = frozenset(_stem(key) for key in keys if key not in _EMPTY and not key.isdigit())
    return _Claim(words, frozenset(figures), negations)


_TEAM = re.compile(r"\b(?:the\s+)?(?:[A-Z][\w-]*\s+){1,2}(?:[Tt]eam|[Gg]roup|[Ss]quad)\b|\b[Tt]eam\s+[A-Z][\w-]*")


def _without_team_names(text: str) -> str:
    """Which group says it is no part of what is claimed."""
    return _TEAM.sub("team", text)


def _stem(key: str) -> str:
    key = SAME_WORDS.get(key, key)
    for ending in _ENDINGS:
        if key.endswith(ending) and len(key) - len(ending) >= 3:
            stem = key[: -len(ending)] + ("y" if ending in ("ies", "ied") else "")
            return stem[:-1] if len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "sl" else stem
    return key


@cache
def _strong_stems() -> frozenset[str]:
    return frozenset(_stem(word) for word in _STRONG)


_EMPTY = (FUNCTION_WORDS | NEGATIONS | WEAK) - {word for pair in OPPOSITES for word in pair}
_OPPOSED = tuple((_stem(a), _stem(b)) for a, b in OPPOSITES)


def _opposed(one: _Claim, other: _Claim) -> bool:
    mine, theirs = one.words - other.words, other.words - one.words
    return any((a in mine and b in theirs) or (b in mine and a in theirs) for a, b in _OPPOSED)


def _contradict(one: _Claim, other: _Claim) -> bool:
    figures = one.figures != other.figures and bool(one.figures) and bool(other.figures)
    return figures or bool(one.negations) != bool(other.negations) or _opposed(one, other)
