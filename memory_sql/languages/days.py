"""Ranges of calendar dates: a week, a month, a number of units from a day. Pure.

Dates outside the years that `date` supports raise `ValueError` or `OverflowError`.
"""

from __future__ import annotations

import calendar
from datetime import date, timedelta
from typing import NamedTuple


class Days(NamedTuple):
    """Calendar dates from `first` to `last`, both included."""

    first: date
    last: date

    def __str__(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first} to {self.last}"


def one_day(day: date) -> Days:
    return Days(day, day)


def week_of(day: date) -> Days:
    """From Monday to Sunday."""
    monday = day - timedelta(days=day.weekday())
    return Days(monday, monday + timedelta(days=6))


def weekend_of(day: date) -> Days:
    sunday = week_of(day).last
    return Days(sunday - timedelta(days=1), sunday)


def month_of(year: int, month: int) -> Days:
    """`month` may be beyond December or before January."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    return Days(date(year, month, 1), date(year, month, calendar.monthrange(year, month)[1]))


def months_from(year: int, month: int, count: int) -> Days:
    """`count` months, starting with this one."""
    return Days(month_of(year, month).first, month_of(year, month + count - 1).last)


def year_of(year: int) -> Days:
    return months_from(year, 1, 12)


def unit_at(today: date, unit: str, distance: int) -> Days:
    """The day, week, month … that is `distance` units after that of `today`."""
    match unit:
        case "day":
            return one_day(today + timedelta(days=distance))
        case "week":
            return week_of(today + timedelta(weeks=distance))
        case "weekend":
            return weekend_of(today + timedelta(weeks=distance))
        case "month":
            return month_of(today.year, today.month + distance)
        case "quarter":
            return months_from(today.year, (today.month - 1) // 3 * 3 + 1 + 3 * distance, 3)
        case _:
            return year_of(today.year + distance)


def span_of(today: date, unit: str, count: int) -> Days:
    """`count` units from today on, or up to today if it is negative."""
    match unit:
        case "day" | "week" | "weekend":
            other = today + timedelta(days=count * (1 if unit == "day" else 7))
        case _:
            month = month_of(today.year, today.month + count * {"month": 1, "quarter": 3, "year": 12}[unit])
            other = month.first.replace(day=min(today.day, month.last.day))
    return Days(min(today, other), max(today, other))


def weekday_before(today: date, weekday: int) -> date:
    """The last such weekday (0: Monday) before today."""
    return today - timedelta(days=(today.weekday() - weekday - 1) % 7 + 1)


def weekday_after(today: date, weekday: int) -> date:
    """The next such weekday (0: Monday) after today."""
    return today + timedelta(days=(weekday - today.weekday() - 1) % 7 + 1)
