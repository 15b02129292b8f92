import json
import re
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_sql.db import ddl
from memory_sql.domain.query import Query, Stages, Weights
from memory_sql.languages.days import Days
from memory_sql.retrieval.query import MAX_TERMS, parse

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)

ARMS = ("searching/search_observations", "searching/search_messages")


def asked(text: str, *, operators: bool = True) -> Query:
    return parse(text, NOW, UTC, operators=operators)


def test_what_frames_a_question_is_left_out_and_said() -> None:
    """R085."""
    query = asked("Do you remember what I told you about the harbour master in Marstrand?")
    assert query.words == ("harbour", "master", "Marstrand")
    assert query.left_out["remember"] == "frames the question"
    assert asked("The a An is are was were do did GATE gate").words == ("GATE",)
    assert not asked("the of and ?!")


def test_words_are_bounded_and_say_so() -> None:
    query = asked(" ".join(f"w{n}" for n in range(100_000)))
    assert len(query.terms) == MAX_TERMS
    assert "too many words" in query.left_out.values()


def test_forms_that_no_stemmer_brings_together_are_one_term() -> None:
    (went,) = asked("went").terms
    assert set(went.words) == {"go", "went", "gone"}


def test_operators_are_taken_where_somebody_types_them() -> None:
    query = asked('"blue bike" -red from:Tom after:2023 before:2024-05 tag:trip where')
    assert query.phrases == ("blue bike",)
    assert query.without == ("red",)
    assert query.said_by == "tom"
    assert (query.after, query.before) == (date(2024, 1, 1), date(2024, 5, 1))
    assert query.tags == ("trip",)
    assert query.words == ("blue", "bike")


def test_a_message_has_no_operators() -> None:
    query = asked('He said "blue bike" - tag:trip', operators=False)
    assert (query.phrases, query.without, query.tags) == ((), (), ())
    assert {"blue", "bike", "trip"} <= set(query.words)


def test_only_to_leave_out_is_no_search() -> None:
    assert not asked("-zzz")
    assert asked("from:tom")


@pytest.mark.parametrize("text", ["after:2023-13", "before:0000", "after:soon", "after:9999-12-31"])
def test_what_is_no_date_is_a_word(text: str) -> None:
    query = asked(text)
    assert (query.after, query.before) == (None, None)
    assert query.terms


def test_a_month_without_a_year_is_that_of_each_year_behind_us() -> None:
    spans = asked("What did we do in July?").spans
    assert Days(date(2023, 7, 1), date(2023, 7, 31)) in spans
    assert Days(date(2026, 7, 1), date(2026, 7, 31)) in spans
    assert len(spans) > 20


def test_a_day_is_looked_for() -> None:
    query = asked("Where was Sam on December 4, 2023?")
    assert query.spans == (Days(date(2023, 12, 4), date(2023, 12, 4)),)


@given(st.text(max_size=2000))
def test_any_text_can_be_asked(text: str) -> None:
    query = asked(text)
    assert len(query.terms) <= MAX_TERMS
    assert "\x00" not in query.to_json(Weights())


def test_each_number_of_the_weights_is_read_and_none_else() -> None:
    """One that is written down in the SQL again, or no longer read there, would be changed to no effect."""
    told = json.loads(asked("tea").to_json(Weights(stages=Stages(), hot_first=True, graph=True)))["weights"]
    read = {name for arm in ARMS for name in _record(ddl.script(arm))}
    assert {"stages", "stale_hidden", "hot_first", "graph"}.isdisjoint(
        json.loads(asked("tea").to_json(Weights()))["weights"]
    )  # as without them
    assert read == set(told) - {"source"}  # which only what joins the arms needs
    assert "-> 'weights' ->> 'source'" in ddl.script("searching/search")


def _record(script: str) -> set[str]:
    (declared,) = re.findall(r"jsonb_to_record\(p_query -> 'weights'\) AS x\((.*?)\);", script, re.DOTALL)
    return {pair.split()[0].strip('"') for pair in declared.split(",")}
