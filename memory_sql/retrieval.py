"""Which words of a question to look for (R085), and when words don't suffice. Pure rules, no model call."""

from __future__ import annotations

import re

from memory_sql.config import VECTORS_MILLISECONDS, VECTORS_WITHOUT_HIT
from memory_sql.domain import RetrievalStats

MAX_CHARACTERS = 512
MAX_TERMS = 32

_TERM = re.compile(r"\w+(?:[-'’.+#/@]\w+)*[+#]*")

# Words that frame a question and say nothing about its answer (R085), beside the stop words of the text search.
_FRAME = frozenset(
    "a about again all am an and any anything are as ask asked at be been but by can could did do does doing for "
    "from get had has have having he her him his how i if in into is it its just like may me mention mentioned "
    "might my no not of on once or our over please recall remember remind said say she should so some something "
    "tell than that the their them then there these they thing things this those time to told was we were what "
    "whatever when where which who whom whose why will with would you your".split()
)


def search_terms(query: str) -> tuple[str, ...]:
    """The words of the question that may stand in an answer, in order, each once; at most `MAX_TERMS`."""
    words = (word.casefold() for word in _TERM.findall(query[:MAX_CHARACTERS]))
    return tuple(dict.fromkeys(word for word in words if word not in _FRAME))[:MAX_TERMS]


def words_fall_short(stats: RetrievalStats) -> bool:
    """Whether searching by words was slow, or found nothing too often (R124, R138)."""
    if stats.mean_ms is None:
        return False
    return stats.mean_ms > VECTORS_MILLISECONDS or stats.without_hit > VECTORS_WITHOUT_HIT * stats.fired
