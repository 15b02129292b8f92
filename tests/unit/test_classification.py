"""What rules find and mask in texts. Every secret here is made up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory_sql.privacy.classify import CATEGORIES, Masked, classify, mask, masked_value
from tests.sizes import examples
from tests.timing import fastest

HERE = Path(__file__).parent
KEY = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEow9ab+/\n-----END RSA PRIVATE KEY-----"
WORDS = "apple river stone cloud tiger lemon chair house green piano ocean bread"

SECRETS = [  # text, what of it may not stay, kind
    ("My password is hunter2.", "hunter2", "password"),
    ("password: hunter2", "hunter2", "password"),
    ("The wifi password at the cabin is correcthorse.", "correcthorse", "password"),
    ("passwords: Blue!Moon", "Blue!Moon", "password"),
    ("the password for staging is 'open sesame now'", "open sesame now", "password"),
    ("user: mia, pass: Tr0ub4dor", "Tr0ub4dor", "password"),
    ("pw=Tr0ub4dor", "Tr0ub4dor", "password"),
    ("DB_PASSWORD=Tr0ub4dor", "Tr0ub4dor", "password"),
    ('{"password": "abc123x"}', "abc123x", "password"),
    ("I changed my password to Winter24!", "Winter24", "password"),
    ("login: mia / Blau!77", "Blau!77", "password"),
    ("curl -u mia:topS3cret https://x.example", "topS3cret", "password"),
    ("postgresql://mia:s3cr%40t@db.example/app", "s3cr%40t", "password"),
    ("Server=x;User Id=sa;Password=P@ss;Encrypt=true", "P@ss", "password"),
    ("Mein Passwort lautet Sonne123!", "Sonne123", "password"),
    ("Das Kennwort für das WLAN ist regenbogen.", "regenbogen", "password"),
    ("Mon mot de passe est soleil42.", "soleil42", "password"),
    ("Mi contraseña es tigre77.", "tigre77", "password"),
    ("OPENAI_API_KEY=sk-proj-abcdefghij0123456789ABCD", "sk-proj-abcdefghij", "key"),
    ("use AKIAIOSFODNN7EXAMPLE for it", "AKIAIOSFODNN7EXAMPLE", "key"),
    ("token ghp_abcdefghijklmnopqrstuvwxyz0123456789", "ghp_abcdef", "key"),
    ("glpat-abcdefghij0123456789", "glpat-abcdefghij", "key"),
    ("xoxb-123456789012-abcdefghijkl", "xoxb-123456789012", "key"),
    ("sk_live_abcdefghij0123456789", "sk_live_abcdefghij", "key"),
    ("AIzaSyA-abcdefghijklmnopqrstuvwxyz01234", "AIzaSyA-abcdef", "key"),
    ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI", "key"),
    ("The API key is 8f14e45fceea167a5a36dedd4bea2543", "8f14e45fceea167a", "key"),
    ("client_secret: 9aB8cD7eF6gH5", "9aB8cD7eF6gH5", "key"),
    ("Der API-Schlüssel lautet a1b2c3d4e5f6g7", "a1b2c3d4e5f6g7", "key"),
    ("?access_token=abc123def456&x=1", "abc123def456", "key"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefghijk", "eyJhbGciOiJIUzI1NiJ9", "token"),
    ("Authorization: Bearer 0a1b2c3d4e5f6a7b8c9d", "0a1b2c3d4e5f", "token"),
    ("Authorization: Basic bWlhOnNlY3JldA==", "bWlhOnNlY3JldA", "token"),
    ("https://hooks.slack.com/services/T00000000/B00000000/abcdefgh", "T00000000/B00000000", "token"),
    (f"see {KEY} there", "MIIEow9ab", "private key"),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA", "b3BlbnNzaC1r", "private key"),
    (json.dumps({"pem": KEY}), "MIIEow9ab", "private key"),
    ("card 4111 1111 1111 1111 exp 12/27", "4111 1111", "card"),
    ("1234 4111-1111-1111-1111", "4111-1111", "card"),
    ("Amex 3782 822463 10005", "3782 822463", "card"),
    ("5555555555554444", "5555555555554444", "card"),
    ("meine IBAN ist DE89 3704 0044 0532 0130 00, danke", "DE89 3704", "iban"),
    ("gb82west12345698765432", "gb82west", "iban"),
    ("My account number is 12345678", "12345678", "account number"),
    ("Kontonummer: 1234567890", "1234567890", "account number"),
    ("My PIN is 4821.", "4821", "code"),
    ("The door code is 2580#", "2580", "code"),
    ("Your verification code: 482913", "482913", "code"),
    (f"seed phrase: {WORDS}", "river stone", "phrase"),
]  # fmt: skip
NO_SECRETS = [
    "The deadline of Atlas is Friday 24 April.",
    "The password reset flow is broken again.",
    "The token budget is 500.",
    "max_tokens: 128000",
    "The password is wrong.",
    "My password is too long to remember.",
    "The password must be at least 12 characters.",
    "Password: required",
    "The password is 12 characters long.",
    "password = os.environ['DB_PASSWORD']",
    "password: ${DB_PASSWORD}",
    "password=<your password>",
    "I forgot the password for the staging server.",
    "We store passwords hashed with argon2.",
    "The secret is out.",
    "The key to success is patience.",
    "API key rotation happens on 2026-03-02.",
    "The tokens are cached for 15 minutes.",
    "Commit 3f786850e387550fdab836ed7e6dc881de23001b broke the build.",
    "The id is 550e8400-e29b-41d4-a716-446655440000.",
    "Order 4821-7733 shipped, tracking number 1Z999AA10123456784.",
    "Order number 4111 1111 1111 1112.",
    "Invoice 2026-000123456789012.",
    "The first pass: linting. The second pass: tests.",
    "The timestamp was 1767225600000.",
    "Version 10.15.7 of the driver.",
    "See https://docs.example/guide:v2@latest.",
    "git@github.example:harbor/atlas.git",
    "The error code is 4042.",
    "The country code is 4711.",
    "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
    "Das Passwort ist abgelaufen.",
    "Le mot de passe est obligatoire.",
    "La contraseña es incorrecta.",
    "The pin connector is bent.",
    "DE89 is the name of the dock.",
]
PERSONAL = [
    ("Anna has diabetes.", ("health",)),
    ("Mia is allergic to nuts.", ("health",)),
    ("He was diagnosed with ADHD last year.", ("health",)),
    ("She is on sick leave until May.", ("health",)),
    ("Tom had a heart attack in March.", ("health",)),
    ("Anna ist schwanger.", ("health",)),
    ("Er hat Bluthochdruck und nimmt Tabletten.", ("health",)),
    ("Elle est enceinte de trois mois.", ("health",)),
    ("Il est en arrêt maladie.", ("health",)),
    ("Está embarazada.", ("health",)),
    ("Tiene depresión.", ("health",)),
    ("My salary is 80k.", ("financial",)),
    ("My salary is none of your business.", ("financial",)),
    ("Jonas earns $5,000 a month.", ("financial",)),
    ("Mein Gehalt beträgt 4.000 Euro.", ("financial",)),
    ("Mia's mortgage runs until 2040.", ("financial",)),
    ("Her credit score is 710.", ("financial",)),
    ("Mia's passport number is C01X00T47.", ("identity",)),
    ("SSN 123-45-6789", ("identity",)),
    ("Mia was born on 3 May 1988.", ("identity",)),
    ("Ihr Geburtstag ist am 3. Mai 1988.", ("identity",)),
    ("My steuer-ID is 12 345 678 901.", ("identity",)),
    ("Reach me at mia.berg@harbor.example", ("contact",)),
    ("Call me on +49 170 1234567.", ("contact",)),
    ("My phone number is 0170 1234567.", ("contact",)),
    ("Handynummer: 0170/1234567", ("contact",)),
    ("Call Jonas on 2026-11-24 under 0170 1234567.", ("contact",)),
    ("Mon numéro de portable : 06 12 34 56 78", ("contact",)),
    ("Mi teléfono es 612 345 678.", ("contact",)),
    ("He lives at 12 Baker Street, London.", ("location",)),
    ("Sie wohnt in der Lindenstraße 5.", ("location",)),
    ("J'habite 5 rue de la Paix.", ("location",)),
    ("Vivo en la calle Mayor 12.", ("location",)),
    ("Jonas is gay.", ("intimate",)),
    ("She is a practising Muslim.", ("intimate",)),
    ("He voted for the Greens.", ("intimate",)),
    ("Tom joined the union.", ("intimate",)),
    ("He has a criminal record.", ("intimate",)),
    ("Jonas ist vorbestraft.", ("intimate",)),
    ("My password is hunter2.", ("credential",)),
    ("Pay with 4111 1111 1111 1111.", ("financial",)),
    ("Write to mia@harbor.example about her insulin.", ("contact", "health")),
]
NOT_PERSONAL = [
    "Large exports fail on Mondays.",
    "The team ships in April.",
    "Write to support@harbor.example if the export fails.",
    "We decided to pay down technical debt.",
    "We voted for option B.",
    "The flag is disabled on staging.",
    "The black background looks better.",
    "Christian ships the release.",
    "The loan service returns 500.",
    "Mia likes tea.",
    "Order 415-2026-5550132 shipped.",
    "Ops has Friday on-call since 2026-11-21.",
    "The next call with the ferry company (2026-11-24) is at 10:00.",
]


@pytest.mark.parametrize(("text", "secret", "kind"), SECRETS, ids=[text[:40] for text, _, _ in SECRETS])
def test_secret_is_masked_and_named_by_its_kind(text: str, secret: str, kind: str) -> None:
    masked = mask(text)
    assert secret in text
    assert secret not in masked.text
    assert masked.found == (kind,)
    assert f"[secret: {kind}]" in masked.text
    assert mask(masked.text).text == masked.text
    assert classify(text) == classify(masked.text)
    assert classify(text).sensitivity == "sensitive"


@pytest.mark.parametrize("text", NO_SECRETS)
def test_what_only_talks_of_secrets_or_looks_a_little_like_one_stays(text: str) -> None:
    assert mask(text) == mask(mask(text).text)
    assert (mask(text).text, mask(text).found) == (text, ())


@pytest.mark.parametrize(("text", "categories"), PERSONAL)
def test_text_is_classified_by_what_it_tells(text: str, categories: tuple[str, ...]) -> None:
    found = classify(text)
    assert found.categories == categories
    assert found.sensitivity == ("private" if set(categories) <= {"contact", "location"} else "sensitive")


@pytest.mark.parametrize("text", NOT_PERSONAL)
def test_what_is_of_nobody_has_no_category(text: str) -> None:
    assert (classify(text).categories, classify(text).sensitivity) == ((), "private")


def test_json_stays_json_and_a_key_says_what_its_value_is() -> None:
    value = {"password": "swordfish", "note": ["my pin is 4821"], "n": 5, "token budget": "500"}
    masked, found = masked_value(value)
    assert masked == {
        "password": "[secret: password]", "note": ["my pin is [secret: code]"], "n": 5, "token budget": "500"
    }  # fmt: skip
    assert found == ("code", "password")
    assert json.loads(mask(json.dumps(value)).text) == masked


def test_secret_is_masked_wherever_in_a_value_it_stands() -> None:
    """All texts of a value are looked through at once, to see whether any is worth a look of its own."""
    for text, _, kind in SECRETS:
        masked = mask(text).text
        assert masked_value(["Nothing.", {"note": [text, 7, None]}]) == (
            ["Nothing.", {"note": [masked, 7, None]}],
            (kind,),
        )
        assert masked_value({text: {"a": True}}) == ({masked: {"a": True}}, (kind,))


def test_several_secrets_of_one_text_are_each_masked() -> None:
    masked = mask("password: hunter2 and the API key is 8f14e45fceea167a; card 4111111111111111")
    assert masked.text == "password: [secret: password] and the API key is [secret: key]; card [secret: card]"
    assert masked.found == ("card", "key", "password")


def test_ordinary_messages_are_left_alone() -> None:
    """717 of them: nothing is masked, four talk of health (three of allergies, one of the Krebs cycle)."""
    names = ("ordinary_messages", "messages_without_signals", "messages_for_memory", "messages_without_memory")
    lines = [line for name in names for line in (HERE / f"{name}.txt").read_text("utf-8").splitlines() if line.strip()]
    assert len(lines) == 717
    assert [line for line in lines if mask(line).found] == []
    assert len([line for line in lines if classify(line).sensitivity == "sensitive"]) <= 4


CUES = (
    "password ", "password is ", "key for ", "secret key token ", "key=a1", "://a:", "://", "eyJaaaaaaaa.", "bearer ", "sk-",
    "DE89 ", "4444 ", "4", "1 ", "a@a.a@", "info@a.b ", "phone 12 ", "passport 1a", "account number 1 ", "door code for x ",
    "seed phrase: abc ", "my salary his income is ", "12 Aaa Bbb Ccc St", "born 1", "-----BEGIN PRIVATE KEY-----",
    "login: a/", "pw ",
    "é", "\ufdfa", "a", "a\u0301", "<", "'", '"', " ", "\n", "[secret: ", "-u a:", "depression ", "vote for the ",
)  # fmt: skip


@pytest.mark.parametrize("cue", CUES)
def test_hostile_text_takes_time_in_proportion_to_its_length(cue: str) -> None:
    """Of 100,000 characters; what takes longer than that by itself would take a hundred times as long."""
    text = (cue * (100_000 // len(cue) + 1))[:100_000]
    assert fastest(lambda: classify(text)) < 0.4  # under 0.1 on a machine that does nothing else


@examples(100, deadline=2000)
@given(st.lists(st.one_of(st.sampled_from(CUES), st.text(max_size=20)), max_size=60).map("".join))
@example("password: [secret: password]")
@example("password: 'a[secret: key]'")
@example("eyJaaaaaaaa.00000000:8080")
def test_masking_twice_changes_nothing_and_any_text_can_be_classified(text: str) -> None:
    masked = mask(text)
    assert bool(masked.found) == (masked.text != text)
    assert mask(masked.text).text == masked.text
    assert set(classify(text).categories) <= set(CATEGORIES)
    assert mask(text).found or classify(text, is_plain=True) == classify(text)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("pass\u200bword: hunt\u200ber2x!", "[secret: password]"),
        ("p\u00adassword is hunter2x", "[secret: password]"),
        ("ｐａｓｓｗｏｒｄ：ｈｕｎｔｅｒ２ｘ", "[secret: password]"),
        ("card 4111\u00a01111\u00a01111\u00a01111", "[secret: card]"),
        ("card 4111\u202f1111\u202f1111\u202f1111", "[secret: card]"),
        ("card 4\u200d111 1111 1111 1111", "[secret: card]"),
        ("DE89\u00a03704\u00a00044\u00a00532\u00a00130\u00a000", "[secret: iban]"),
        ("AKIA\u2060IOSFODNN7EXAMPLE", "[secret: key]"),
        ("Het wachtwoord is hunter2x", "[secret: password]"),
        ("A senha do banco é hunter2x", "[secret: password]"),
        ("Мой пароль от почты: hunter2x", "[secret: password]"),
        ("пароль — hunter2x", "[secret: password]"),
        ("密码：hunter2x", "[secret: password]"),
        ("我的密码是hunter2x，请记住", "[secret: password]"),
        ("rekeningnummer 123456789", "[secret: account number]"),
    ],
)
def test_masking_sees_what_a_reader_sees_and_changes_nothing_else(text: str, masked: str) -> None:
    done = mask(text)
    assert masked in done.text
    assert len(done.found) == 1
    assert "hunter" not in done.text
    assert mask(done.text) == Masked(done.text, ())


@pytest.mark.parametrize(
    "text",
    [
        "4111 1111 1111 1111ghp_abcdefghijklmnopqrstuvwxyz0123456789", "4111111111111111AKIAIOSFODNN7EXAMPLE",
        "AKIAIOSFODNN7EXAMPLE5500-0000-0000-0004",
    ],
)  # fmt: skip
def test_a_key_right_beside_a_card_is_masked_with_it(text: str) -> None:
    masked = mask(text)
    assert masked.found == ("card", "key")
    assert mask(masked.text) == Masked(masked.text, ())


def test_what_stands_beside_a_secret_stays_as_it_was_written() -> None:
    text = "Ａnna\u200b sagt\u00a0: pass\u200bword: hunter2x und\u00a0ｇeht"
    assert mask(text) == Masked(
        "Ａnna\u200b sagt\u00a0: pass\u200bword: [secret: password] und\u00a0ｇeht", ("password",)
    )
    assert mask("Ａnna\u200b geht\u00a0heim").text == "Ａnna\u200b geht\u00a0heim"


@pytest.mark.parametrize(
    "text",
    [
        "Wachtwoord vergeten?", "Het wachtwoord is verkeerd.", "Esqueci a senha.", "A senha é fraca.", "Пароль неверный.",
        "Я забыл пароль от почты.", "密码错误", "我忘记密码了", "Ik ben naar huis in de trein.",
    ],
)  # fmt: skip
def test_what_is_said_of_a_password_in_other_languages_is_none(text: str) -> None:
    assert mask(text).found == ()


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("Ik ben zwanger.", "health"), ("Estou com câncer.", "health"), ("У меня диабет.", "health"),
        ("我有糖尿病", "health"),
        ("My passport number: C0\u200b1X00T47", "identity"), ("BSN: 123456782", "identity"),
        ("CPF 123.456.789-09", "identity"),
        ("Паспорт 4510 123456", "identity"), ("身份证号110101199003070000", "identity"), ("手机：13812345678", "contact"),
        ("Anna has dia\u200bbetes", "health"), ("Ａｎｎａ ｈａｓ ｄｉａｂｅｔｅｓ", "health"),
    ],
)  # fmt: skip
def test_classification_sees_the_same_in_other_languages(text: str, category: str) -> None:
    assert category in classify(text).categories
