"""Different contact data tells two claims apart."""

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
