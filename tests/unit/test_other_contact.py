"""Different contact data tells two claims apart."""

import pytest

from memory_sql.privacy.contact import other_contact

ANNA, BEN = "Invoices go to anna@x.org only.", "Invoices go to ben@y.org only."


def test_different_contact_data_contradicts() -> None:
    assert other_contact(ANNA, BEN)
    assert other_contact("Call +49 30 1234567.", "Call +49 30 7654321.")


def test_the_same_contact_data_or_none_does_not() -> None:
    assert not other_contact(ANNA, ANNA.replace("anna@x.org", "Anna@X.org"))
    assert not other_contact(ANNA, "Invoices go to the office only.")


def test_what_was_cut_before_is_the_same_as_nothing_else() -> None:
    cut = "Invoices go to [contact] only."
    assert other_contact(cut, cut)
    assert other_contact(cut, ANNA)
    assert not other_contact(cut, "Invoices go to the office only.")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Write to anna.smith@x.org.", "Write to anna_smith@x.org."),
        ("Write to anna@x-y.org.", "Write to anna@x.y.org."),
        ("Write to anna@x.org or, for orders, ben@y.org.", "Write to ben@y.org or, for orders, anna@x.org."),
        ("Write to anna(at)x(dot)org.", "Write to ann(at)x(dot)org."),
        ("Write to @anna.", "Write to @ben."),
        ("Write to 12 Elm Street.", "Write to 14 Elm Street."),
    ],
)
def test_a_dot_a_dash_and_the_order_tell_addresses_apart(one: str, other: str) -> None:
    assert other_contact(one, other)
    assert not other_contact(one, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [("Call +49 30 1234567.", "Call +49301234567."), ("Write to anna(at)x(dot)org.", "Write to Anna@x.org.")],
)
def test_how_it_is_written_does_not(one: str, other: str) -> None:
    assert not other_contact(one, other)
