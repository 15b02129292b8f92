from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from memory_sql.languages.dates import days_of, find_dates
from memory_sql.languages.days import Days
from tests.timing import taken

SATURDAY = datetime(2026, 11, 21, 12, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
ZONES = st.sampled_from(
    [ZoneInfo(n) for n in ("UTC", "Europe/Berlin", "America/New_York", "Pacific/Kiritimati", "Pacific/Pago_Pago")]
)
MOMENTS = st.integers(631_152_000, 3_786_912_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))  # 1990–2089


def found(text: str, moment: datetime = SATURDAY) -> list[tuple[str, str]]:
    return [(text[f.start : f.end], str(f.days)) for f in find_dates(text, moment, BERLIN)]


def only(text: str, moment: datetime, zone: ZoneInfo) -> Days:
    (item,) = find_dates(text, moment, zone)
    return item.days


@pytest.mark.parametrize(
    ("text", "span", "days"),
    [
        ("Mia left yesterday.", "yesterday", "2026-11-20"),
        ("Yesterday's walk was long.", "Yesterday's", "2026-11-20"),
        ("Mia came the day before yesterday.", "the day before yesterday", "2026-11-19"),
        ("Mia slept badly last night.", "last night", "2026-11-20"),
        ("Jonas works today.", "today", "2026-11-21"),
        ("Jonas cooks tonight.", "tonight", "2026-11-21"),
        ("The ferry leaves tomorrow morning.", "tomorrow morning", "2026-11-22"),
        ("The port opens the day after tomorrow.", "the day after tomorrow", "2026-11-23"),
        ("Elin moved three days ago.", "three days ago", "2026-11-18"),
        ("Elin moved 10 days ago.", "10 days ago", "2026-11-11"),
        ("Elin moved two weeks ago.", "two weeks ago", "2026-11-02 to 2026-11-08"),
        ("Elin moved a couple of months ago.", "a couple of months ago", "2026-09-01 to 2026-09-30"),
        ("Elin moved a year ago.", "a year ago", "2025-01-01 to 2025-12-31"),
        ("The permit expires in 3 days.", "in 3 days", "2026-11-24"),
        ("The permit expires in two months.", "in two months", "2027-01-01 to 2027-01-31"),
        ("They met last week.", "last week", "2026-11-09 to 2026-11-15"),
        ("They meet next week.", "next week", "2026-11-23 to 2026-11-29"),
        ("They met last weekend.", "last weekend", "2026-11-14 to 2026-11-15"),
        ("They met last month.", "last month", "2026-10-01 to 2026-10-31"),
        ("They moved last quarter.", "last quarter", "2026-07-01 to 2026-09-30"),
        ("They will marry next year.", "next year", "2027-01-01 to 2027-12-31"),
        ("Mia was ill the past two weeks.", "the past two weeks", "2026-11-07 to 2026-11-21"),
        ("The next three days are free.", "The next three days", "2026-11-21 to 2026-11-24"),
        ("They met last Friday.", "last Friday", "2026-11-20"),
        ("They met last Saturday.", "last Saturday", "2026-11-14"),
        ("They meet next Tuesday.", "next Tuesday", "2026-11-24"),
        ("They met this Tuesday.", "this Tuesday", "2026-11-17"),
        ("They meet Wednesday next week.", "Wednesday next week", "2026-11-25"),
        ("Mia went to the dentist on Monday.", "Monday", "2026-11-16"),
        ("Mia goes to the dentist on Monday.", "Monday", "2026-11-23"),
        ("Mia learned that the demo is on Monday.", "Monday", "2026-11-23"),
        ("They met in May.", "in May", "2026-05-01 to 2026-05-31"),
        ("They will meet in May.", "in May", "2027-05-01 to 2027-05-31"),
        ("They met last May.", "last May", "2026-05-01 to 2026-05-31"),
        ("They met last December.", "last December", "2025-12-01 to 2025-12-31"),
        ("They meet next November.", "next November", "2027-11-01 to 2027-11-30"),
        ("They met last summer.", "last summer", "2026-06-01 to 2026-08-31"),
        ("They meet next winter.", "next winter", "2026-12-01 to 2027-02-28"),
        ("They met in the winter of 2023.", "winter of 2023", "2023-12-01 to 2024-02-29"),
        ("They met in Q3 2025.", "Q3 2025", "2025-07-01 to 2025-09-30"),
        ("They met in 2023.", "in 2023", "2023-01-01 to 2023-12-31"),
        ("They met in March 2023.", "March 2023", "2023-03-01 to 2023-03-31"),
        ("They met on 2026-03-02.", "2026-03-02", "2026-03-02"),
        ("They met on 2026/03/02.", "2026/03/02", "2026-03-02"),
        ("They met on March 2, 2026.", "March 2, 2026", "2026-03-02"),
        ("They met on 2 March 2026.", "2 March 2026", "2026-03-02"),
        ("They met on Monday, March 2nd.", "Monday, March 2nd", "2026-03-02"),
        ("They met on the 2nd of March.", "2nd of March", "2026-03-02"),
        ("They will meet on March 2.", "March 2", "2027-03-02"),
        ("They met the week of March 3.", "the week of March 3", "2026-03-02 to 2026-03-08"),
        ("Open 2026-11-09 to 2026-11-15.", "2026-11-09 to 2026-11-15", "2026-11-09 to 2026-11-15"),
        ("Born on February 29.", "February 29", "2028-02-29"),
        ("They met on Christmas Eve.", "Christmas Eve", "2025-12-24"),
        ("They will meet on New Year's Eve.", "New Year's Eve", "2026-12-31"),
        ("They met on New Year’s Eve 2022.", "New Year’s Eve 2022", "2022-12-31"),
        ("Friday was fine, and it will be sunny.", "Friday", "2026-11-20"),
        ("On Friday we will know what happened.", "Friday", "2026-11-27"),
    ],
)
def test_expression_is_found_and_read(text: str, span: str, days: str) -> None:
    """The moment of speaking is Saturday, 2026-11-21."""
    assert found(text) == [(span, days)]


@pytest.mark.parametrize(
    "text",
    [
        "They met on 3/2/2026.",
        "The gate is closed every Monday.",
        "The gate is closed on Mondays.",
        "Yoga is on Monday mornings.",
        "Option 2 may work, and she may 5 times.",
        "They marched on.",
        "A few days ago.",
        "The following week it rained.",
        "Mia learned Danish in two weeks.",
        "She bought a boat on Black Friday.",
        "Mia's favourite song is “Yesterday”.",
        "Call 2026-1102 or 12-2026-03.",
        "On 30 February 2026.",
        "In 9999 years.",
        "Mia has 45 boats, and the yesterdays are over.",
        "",
    ],
)
def test_what_names_no_certain_date_is_left_alone(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "days"),
    [
        (
            "Jonas sold the boat yesterday and moves next week; see 2026-03-02.",
            "2026-03-02, 2026-11-20, 2026-11-23 to 2026-11-29",
        ),
        ("Mia went to the dentist on Monday.", "2026-11-16"),
        ("Mia will go to the dentist on Monday.", "2026-11-23"),
        ("The report is due Friday.", "2026-11-27"),
        ("Lunch at the pub was on Sunday.", "2026-11-15"),
        ("They met in May.", "2026-05-01 to 2026-05-31"),
        ("Last week I sold the boat.", "2026-11-09 to 2026-11-15"),
        ("Last month Jonas sold the boat.", "2026-10-01 to 2026-10-31"),
        ("They met on Friday 2023-01-27.", "2023-01-27"),
        ("They met on Friday, January 27, 2023.", "2023-01-27"),
        ("The deadline is 2026-03-06 (Friday).", "2026-03-06"),
        # The openings of sentences, and what a comma sets before them
        ("On Friday, I flew to Porto.", "2026-11-20"),
        ("On Friday I flew to Porto.", "2026-11-20"),
        ("It is late. But on Friday, Mia got great news - I'm glad.", "2026-11-20"),
        ("Friday, we met.", "2026-11-20"),
        ("In May, they moved.", "2026-05-01 to 2026-05-31"),
        ("On Christmas Eve, we burned the roast.", "2025-12-24"),
        ("Jonas spent New Year's Eve in Porto.", "2025-12-31"),
        ("On Fridays, we met.", ""),
        ("On Friday, we always met.", ""),
        ("On Friday, the shop is closed.", ""),
        ("On Friday, we used to swim.", ""),
        ("On Christmas Eve, we always ate carp.", ""),
        ("We eat carp on Christmas Eve.", ""),
        ("Ruby Tuesday, we ate there.", ""),
        ("The shop opens on Sunday, Mia said.", ""),
        # What happens again and again
        ("Mia never works on Sunday.", ""),
        ("Mia goes to the dentist on Monday.", ""),
        ("Friday deploys are fine.", ""),
        ("The shop is closed on Sunday.", ""),
        ("Mia used to swim on Friday.", ""),
        ("We always met on Monday.", ""),
        ("Roses bloom in May.", ""),
        ("Her birthday is March 2.", ""),
        # Ranges and lists of weekdays
        ("Office hours were Monday to Friday.", ""),
        ("They trained Monday, Wednesday and Friday.", ""),
        # Names
        ("The Monday.com board was slow.", ""),
        ("We ate at Ruby Tuesday.", ""),
        ("Mia read the Sunday Times.", ""),
        ("USA Today wrote about it.", ""),
        ("Mia has listened to “Yesterday”.", ""),
    ],
)
def test_text_is_found_by_the_days_of_single_events(text: str, days: str) -> None:
    """The moment of speaking is Saturday, 2026-11-21."""
    assert ", ".join(map(str, days_of(text, SATURDAY, BERLIN))) == days


@given(
    st.dates(date(2000, 1, 1), date(2099, 12, 31)), st.sampled_from(["{w} {d}", "{w}, {d}", "{d} ({w})", "{d}, {w}"])
)
def test_weekday_beside_a_date_is_that_date(day: date, form: str) -> None:
    text = f"They met on {form.format(w=f'{day:%A}', d=day)}."
    assert days_of(text, SATURDAY, BERLIN) == ((day, day),)


def test_day_is_that_of_the_speakers_zone() -> None:
    late = datetime(2026, 11, 21, 23, 30, tzinfo=UTC)
    assert [only("today", late, ZoneInfo(z)).first.day for z in ("UTC", "Europe/Berlin", "America/New_York")] == [
        21, 22, 21,
    ]  # fmt: skip
    noon = datetime(2026, 11, 21, 11, tzinfo=UTC)  # on both sides of the date line
    assert only("today", noon, ZoneInfo("Pacific/Kiritimati")).first == date(2026, 11, 22)
    assert only("today", noon, ZoneInfo("Pacific/Pago_Pago")).first == date(2026, 11, 21)


def test_language_without_a_table_finds_nothing() -> None:
    assert find_dates("yesterday", SATURDAY, BERLIN, "german") == []


@given(MOMENTS, ZONES, st.integers(0, 6))
def test_weekdays_are_reckoned_as_documented(moment: datetime, zone: ZoneInfo, weekday: int) -> None:
    today, name = moment.astimezone(zone).date(), WEEKDAYS[weekday]
    last, this, coming = (only(f"{word} {name}", moment, zone).first for word in ("last", "this", "next"))
    assert {day.weekday() for day in (last, this, coming)} == {weekday}
    assert 1 <= (today - last).days <= 7
    assert this.isocalendar()[:2] == today.isocalendar()[:2]
    assert coming - this == timedelta(days=7)
    assert 1 <= (only(f"it is on {name}", moment, zone).first - today).days <= 7
    assert only(f"it was on {name}", moment, zone).first == last


@given(MOMENTS, ZONES, st.integers(0, 400))
def test_days_ago_count_calendar_days_also_across_a_change_of_clocks(
    moment: datetime, zone: ZoneInfo, count: int
) -> None:
    today = moment.astimezone(zone).date()
    assert only(f"{count} days ago", moment, zone).first == today - timedelta(days=count)
    assert only(f"in {count} days", moment, zone).first == today + timedelta(days=count)


@given(MOMENTS, ZONES, st.sampled_from(["week", "month", "quarter", "year", "weekend"]))
def test_last_this_and_next_follow_one_another(moment: datetime, zone: ZoneInfo, unit: str) -> None:
    """Also over the end of a year and a leap day."""
    last, this, coming = (only(f"{word} {unit}", moment, zone) for word in ("last", "this", "next"))
    if unit != "weekend":
        assert this.first <= moment.astimezone(zone).date() <= this.last
        assert (last.last + timedelta(days=1), this.last + timedelta(days=1)) == (this.first, coming.first)
    else:
        assert (this.first - last.first, coming.first - this.first) == (timedelta(days=7), timedelta(days=7))
        assert this.first.weekday() == 5


@given(MOMENTS, st.dates(date(1901, 1, 1), date(2099, 12, 31)))
def test_written_date_is_that_date_whenever_it_is_read(moment: datetime, day: date) -> None:
    for text in (f"{day}", f"{day:%B} {day.day}, {day.year}", f"{day.day} {day:%b} {day.year}"):
        assert only(f"since {text}", moment, BERLIN) == (day, day)


@given(MOMENTS, ZONES, st.dates(date(2000, 1, 1), date(2024, 12, 31)))
def test_date_without_a_year_is_told_by_the_tense(moment: datetime, zone: ZoneInfo, day: date) -> None:
    assume((day.month, day.day) != (2, 29))
    today = moment.astimezone(zone).date()
    named = f"on {day:%B} {day.day}"
    past, future = (only(f"{tense} {named}", moment, zone).first for tense in ("it was", "it will be"))
    assert today - timedelta(days=366) < past <= today <= future < today + timedelta(days=366)
    assert {(d.month, d.day) for d in (past, future)} == {(day.month, day.day)}


@given(st.text(max_size=200), MOMENTS)
def test_any_text_can_be_read(text: str, moment: datetime) -> None:
    spans = [(f.start, f.end) for f in find_dates(text, moment, BERLIN)]
    assert spans == sorted(spans)
    assert all(0 <= start < end <= len(text) for start, end in spans)


@pytest.mark.parametrize(
    "text",
    [
        *("1 " * 50_000, "the week of " * 8_000, "may " * 25_000, "in a couple of " * 6_000),
        *("on monday " * 2_000, "We met on 5 May. " * 3_000, "Was it on Monday, " * 2_000),
    ],
)
def test_long_text_takes_no_longer_than_it_is_long(text: str) -> None:
    """Ten times the text: about ten times the time, not a hundred."""

    def excess() -> float:
        short = taken(lambda: find_dates(text[: len(text) // 10], SATURDAY, BERLIN))
        return taken(lambda: find_dates(text, SATURDAY, BERLIN)) - 40 * short

    assert min(excess() for _ in range(3)) < 0.05
