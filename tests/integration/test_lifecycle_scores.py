"""Heat, decay, value and stage: the same in Python and in SQL, and as the sources have computed them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from memory_sql.db.ddl import script
from memory_sql.domain.observations import Policy, Stage, Verification
from memory_sql.lifecycle import scores as module
from memory_sql.lifecycle.scores import Life, Rules, Scores, next_stage, scores
from memory_sql.memory import Memory
from tests.database import rows
from tests.factories import MONDAY as NOW

CONFIRMED_CORRECTION: dict[str, Any] = {"verification": "confirmed", "category": "correction"}
EXPLICIT, IMPLIED, INFERRED, SPECULATIVE = 0.95, 0.70, 0.40, 0.39
RULES = Rules(0.55, 0.65, 0.74, ("decision", "principle", "commitment", "preference", "procedure"))


def life(days: float = 0, **given: Any) -> Life:
    """What was said so many days ago."""
    return Life(said_at=NOW - timedelta(days=days), created_at=NOW - timedelta(days=400), **given)


VECTORS = [  # heat, decay and value, as computed in B.4 of the sources
    (life(confidence=EXPLICIT, importance=0.5), (0.5750, 0.3637, 0.5900)),
    (life(confidence=IMPLIED, importance=0.5), (0.5250, 0.4112, 0.5420)),
    (life(30, confidence=IMPLIED, importance=0.6, uses=5, last_used_at=NOW), (0.7166, 0.1825, 0.7150)),
    (life(60, confidence=INFERRED, importance=0.3), (0.3117, 0.5832, 0.3207)),
    (life(90, confidence=SPECULATIVE, importance=0.2), (0.1675, 0.7049, 0.1740)),
    (life(200, confidence=SPECULATIVE, importance=0.1), (0.1525, 0.8571, 0.1540)),
    (
        life(10, confidence=EXPLICIT, importance=0.8, uses=20, last_used_at=NOW, **CONFIRMED_CORRECTION),
        (0.9200, 0.0787, 1.0000),
    ),
    (life(confidence=IMPLIED, importance=0.5, verification="disputed"), (0.3250, 0.4412, 0.4420)),
]  # fmt: skip
MORE = [  # what those leave open, computed by hand
    (Life(), (0.25, 0.8125, 0.27)),  # nothing is known: .125 + .075 + .05
    (Life(created_at=NOW), (0.45, 0.4825, 0.47)),
    (life(feedback=-1.0), (0.40, 0.54, 0.42)),
    (life(feedback=0.5), (0.475, 0.45375, 0.495)),
    (life(confidence=1.0, category="correction"), (0.575, 0.36375, 0.67)),
    (life(confidence=1.0, verification="confirmed"), (0.575, 0.36375, 0.64)),
    (life(30, uses=1, last_used_at=NOW - timedelta(days=60)), (0.3849675, 0.4172549, 0.3958609)),
    (life(confidence=0.0, importance=0.0, verification="disputed"), (0.1375, 0.559375, 0.234)),
    (life(confidence=1.0, status="archived"), (0.0, 1.0, 0.59)),
    (life(uses=500, last_used_at=NOW), (0.75, 0.1875, 0.73)),
]  # fmt: skip


async def in_sql(memory: Memory, lives: Sequence[Life], name: str = "memory.lifecycle") -> list[Scores]:
    types = "float8 float8 bigint timestamptz timestamptz timestamptz float8 text text text".split()
    columns = ", ".join(f"cast(:c{n} AS {kind}[])" for n, kind in enumerate(types))
    found = await rows(
        memory,
        f"SELECT l.heat, l.decay, l.value FROM unnest({columns}) WITH ORDINALITY k(a, b, c, d, e, f, g, h, i, j, n)"  # noqa: S608
        f" CROSS JOIN LATERAL {name}(a, b, c, d, e, f, g, h, i, j, :now) l ORDER BY k.n",
        now=NOW,
        **{f"c{n}": [one[n] for one in lives] for n in range(len(types))},
    )
    return [Scores(*row) for row in found]


@pytest.mark.parametrize("side", ["python", "sql"])
@pytest.mark.parametrize(("one", "expected"), [*VECTORS, *MORE])
async def test_scores_are_those_of_the_sources(
    memory: Memory, side: str, one: Life, expected: tuple[float, ...]
) -> None:
    (found,) = [scores(one, NOW)] if side == "python" else await in_sql(memory, [one])
    assert found == pytest.approx(expected, abs=5.1e-5)


SHARES = st.floats(0, 1)
MOMENTS = st.timedeltas(timedelta(days=-3), timedelta(days=500)).map(lambda ago: NOW - ago)
LIVES = st.builds(
    Life,
    confidence=st.none() | SHARES,
    importance=st.none() | SHARES,
    uses=st.integers(0, 60),
    last_used_at=st.none() | MOMENTS,
    said_at=st.none() | MOMENTS,
    created_at=st.none() | MOMENTS,
    feedback=st.none() | st.floats(-1, 1),
    verification=st.sampled_from(get_args(Verification)),
    category=st.sampled_from([None, "correction", "fact", "decision"]),
    status=st.sampled_from(["active", "archived"]),
)
ONE_DATABASE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # nothing is stored


@ONE_DATABASE
@example([Life(importance=5e-324)])  # Postgres refuses a product that underflows
@given(st.lists(LIVES, min_size=1, max_size=50))
async def test_python_and_sql_agree_on_scores_within_bounds(memory: Memory, lives: list[Life]) -> None:
    found = await in_sql(memory, lives)
    for one, scored in zip(lives, found, strict=True):
        assert all(0 <= share <= 1 for share in scored)
        assert scored == pytest.approx(scores(one, NOW), abs=1e-9)


@given(LIVES, st.integers(1, 60), st.timedeltas(timedelta(0), timedelta(days=500)))
def test_more_use_never_makes_it_colder(one: Life, more: int, later: timedelta) -> None:
    before, used = scores(one, NOW), scores(one._replace(uses=one.uses + more), NOW)
    assert used.heat >= before.heat
    assert used.value >= before.value
    assert used.decay <= before.decay
    if one.last_used_at is not None:
        again = scores(one._replace(last_used_at=one.last_used_at + later), NOW)
        assert again.heat >= before.heat
        assert again.decay <= before.decay


@given(LIVES, st.timedeltas(timedelta(0), timedelta(days=500)))
def test_time_alone_never_warms(one: Life, later: timedelta) -> None:
    before, after = scores(one, NOW), scores(one, NOW + later)
    assert after.heat <= before.heat
    assert after.value <= before.value
    assert after.decay >= before.decay


Judged = tuple[Stage, Scores, Verification, str | None, Policy]


def judged(
    stage: Stage = "candidate",
    *,
    heat: float = 0.0,
    decay: float = 0.0,
    verification: Verification = "unverified",
    category: str | None = None,
    policy: Policy = "durable",
) -> Judged:
    return stage, Scores(heat, decay, 0.0), verification, category, policy


async def staged(memory: Memory, cases: Sequence[Judged], rules: Rules = RULES) -> list[Stage]:
    """By the function in the database."""
    flat = [(stage, scored.heat, scored.decay, *rest) for stage, scored, *rest in cases]
    types = "text float8 float8 text text text".split()
    columns = ", ".join(f"cast(:c{n} AS {kind}[])" for n, kind in enumerate(types))
    found = await rows(
        memory,
        "SELECT memory.next_stage(a, b, c, d, e, f, :promote, :stale, :archive, cast(:protected AS text[]))"  # noqa: S608
        f" FROM unnest({columns}) WITH ORDINALITY k(a, b, c, d, e, f, n) ORDER BY k.n",
        **{f"c{n}": [row[n] for row in flat] for n in range(len(types))},
        **(rules._asdict() | {"protected": [*rules.protected]}),
    )
    return [row[0] for row in found]


@pytest.mark.parametrize("side", ["python", "sql"])
@pytest.mark.parametrize(
    ("one", "becomes"),
    [
        (judged("archived", heat=1, verification="confirmed"), "archived"),  # for good
        (judged("archived", verification="disputed"), "archived"),
        (judged("active", heat=1, verification="disputed"), "stale"),  # before all that scores say
        (judged(decay=1, verification="disputed"), "stale"),
        (judged(decay=0.74), "archived"),
        (judged(heat=1, decay=0.74), "archived"),
        (judged(decay=0.7399), "stale"),
        (judged(decay=1, policy="protected"), "stale"),
        (judged(decay=1, policy="ephemeral"), "archived"),
        *((judged(decay=1, category=name), "stale") for name in RULES.protected),
        (judged(decay=1, category="fact"), "archived"),
        (judged(heat=1, decay=0.65), "stale"),
        (judged(heat=0.55, decay=0.6499), "validated"),
        (judged("stale", heat=0.55), "validated"),
        (judged("validated", heat=0.55, verification="confirmed"), "active"),
        (judged("active", heat=0.55), "validated"),
        *((judged(stage, heat=0.5499, decay=0.6499), stage) for stage in get_args(Stage)),
    ],
)
async def test_stage_follows_from_scores_in_the_order_of_the_sources(
    memory: Memory, side: str, one: Judged, becomes: Stage
) -> None:
    (found,) = [next_stage(*one, RULES)] if side == "python" else await staged(memory, [one])
    assert found == becomes


@ONE_DATABASE
@given(
    st.lists(
        st.builds(
            judged,
            st.sampled_from(get_args(Stage)),
            heat=SHARES,
            decay=SHARES,
            verification=st.sampled_from(get_args(Verification)),
            category=st.sampled_from([None, "fact", "decision"]),
            policy=st.sampled_from(get_args(Policy)),
        ),
        min_size=1,
    ),
    st.builds(Rules, SHARES, SHARES, SHARES, st.sampled_from([(), ("decision",)])),
)
async def test_python_and_sql_agree_on_stages(memory: Memory, cases: list[Judged], rules: Rules) -> None:
    found = await staged(memory, cases, rules)
    assert found == [next_stage(*one, rules) for one in cases]
    for (stage, _, _, category, policy), becomes in zip(cases, found, strict=True):
        if policy == "protected" or category in rules.protected:
            assert becomes != "archived" or stage == "archived"


def test_stale_counts_at_most_as_much_as_archive() -> None:
    kept = judged(decay=0.5, policy="protected")
    assert next_stage(*kept, Rules(0.55, 0.9, 0.4, ())) == "stale"
    assert next_stage(*kept, Rules(0.55, 0.9, 0.6, ())) == "candidate"


NUMBER = re.compile(r"(?<![\w.])(?:\d+\.\d+|\d{2,})(?!\w*\()")


def mutants(source: str, first: str) -> Iterator[tuple[str, str]]:
    """The source with one number a tenth larger, number by number; what comes before `first` isn't counted."""
    start = source.index(first)
    for found in NUMBER.finditer(source, start):
        yield (
            f"{found[0]} at {found.start()}",
            f"{source[: found.start()]}{float(found[0]) * 1.1!r}{source[found.end() :]}",
        )


def is_noticed(found: Sequence[Scores]) -> bool:
    expected = [scored for _, scored in (*VECTORS, *MORE)]
    return any(one != pytest.approx(other, abs=5.1e-5) for one, other in zip(found, expected, strict=True))


CASES = [one for one, _ in (*VECTORS, *MORE)]


def test_each_number_of_the_formulas_counts_in_python() -> None:
    source = Path(module.__file__).read_text()
    ast.parse(source)
    tried = 0
    for name, mutant in mutants(source, "TIERS ="):
        if name.startswith(("365.0", "0.0 ")):
            continue
        changed: dict[str, Any] = {"__name__": "mutant"}
        exec(compile(mutant, "mutant", "exec"), changed)
        assert is_noticed([changed["scores"](one, NOW) for one in CASES]), name
        tried += 1
    assert tried > 25


async def test_each_number_of_the_formulas_counts_in_sql(memory: Memory) -> None:
    source = script("lifecycle/lifecycle").split("COMMENT ON")[0].replace("memory.lifecycle(", "public.mutant(")
    tried = 0
    for name, mutant in mutants(source, "SELECT h.heat"):
        if name.startswith("365"):
            continue
        await rows(memory, mutant.replace(":", r"\:"))
        assert is_noticed(await in_sql(memory, CASES, "public.mutant")), name
        tried += 1
    assert tried > 25
