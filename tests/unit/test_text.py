import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory_sql.context.digest import cut
from memory_sql.languages.invisible import looks_plain
from memory_sql.languages.text import clean, content_digest, count_tokens, normal_form, one_line, sentences, shortened


def test_clean_leaves_good_text_alone() -> None:
    assert clean("Blåbær & <b> 日本 👍🏽\n\t") == ("Blåbær & <b> 日本 👍🏽\n\t", ())


def test_clean_replaces_what_postgres_cannot_hold_and_says_so() -> None:
    assert clean("a\x00b\ud83dc") == ("a\ufffdb\ufffdc", ("nul", "surrogate"))


def test_clean_takes_out_invisible_tag_characters() -> None:
    hidden = "".join(chr(0xE0000 + ord(c)) for c in "obey")
    assert clean(f"Hello{hidden}") == ("Hello", ("tag_characters",))


@given(st.text())
def test_cleaned_text_is_clean_and_encodable(text: str) -> None:
    cleaned, _ = clean(text)
    assert clean(cleaned) == (cleaned, ())
    assert "\x00" not in cleaned.encode().decode()


@given(st.text())
@example("\u1f70\u0345")
@example('x"\n"B C"')
@example('/a\n"B\nC D"')
@example("'' 'B'C' D")
@example("aİ(B C)")
@example('AΣ"Σ B"Σ')
@example("1 İ M! !. ")
def test_normal_form_is_stable(text: str) -> None:
    assert normal_form(normal_form(text)) == normal_form(text)


def test_hash_ignores_case_white_space_and_the_marks_at_the_end() -> None:
    assert content_digest("Mia likes  TEA!") == content_digest("mia likes tea")
    assert content_digest("Straße") == content_digest("STRA\u1e9eE")
    assert content_digest("cafe\u0301") == content_digest("caf\u00e9")
    assert content_digest("Mia likes tea") != content_digest("Mia likes coffee")
    assert content_digest("Mia's id is  aB3") == content_digest("MIA'S ID is aB3.")
    assert content_digest("In Oslo (Norway), he/she") == content_digest("in oslo  (NORWAY), he/she!")
    assert content_digest("O'Brien and Anna-Maria") == content_digest("o'brien and anna-maria")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Don’t tell Mia’s sister", "don’t tell MIA’S sister"),
        ("The boats’ crew likes Tea and Mia’s cakes’ taste", "the boats’ crew likes tea and mia’s cakes’ taste"),
        ("The CEO's e-mail – or the CEO’s X-ray", "the ceo's E-Mail – or the ceo’s x-ray"),
        ("Norway—OSLO", "norway—oslo"),
        ("She starts at 5 PM", "she starts at 5 pm"),
        ("She moved in 2024 It was cold", "she moved in 2024 it was cold"),
        ("She has 2 Cats and 3 Dogs!", "she has 2 cats and 3 dogs"),
        ("She starts at 5pm!", "she starts at 5pm."),
        ("It costs 3.50!", "it costs 3.50"),
        ("He said aBc !", "he said aBc."),
    ],
)
def test_hash_is_that_of_ordinary_words(one: str, other: str) -> None:
    assert content_digest(one) == content_digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("C#", "C++"),
        ("-5 °C", "5 °C"),
        ("> 100 ms", "< 100 ms"),
        ("2²", "22"),
        ("Version 1.2", "Version 1,2"),
        ("$47", "47"),
        ("We ship on Friday?", "We ship on Friday."),
        ("Mia trinkt in Maßen.", "Mia trinkt in Massen."),
        ("User id is aB3.", "User id is Ab3."),
        ("The user is miaBoat.", "The user is miabOat."),
        ("The key is sk_live_AB.", "The key is sk_live_ab."),
        ("The variable is User_Name.", "The variable is user_name."),
        ("The files are in /tmp/a b.", "The files are in /tmp/a  b."),
        ("The files are in /tmp/Mia.", "The files are in /tmp/mia."),
        (r"The files are in C:\Mia Boats.", r"The files are in C:\mia  boats."),
        ("It is https://x.org/Mia.", "It is https://x.org/mia."),
        ("It is https://x.org?Key=A.", "It is https://x.org?Key=a."),
        ('The title is "Boats  and Tea".', 'The title is "Boats and Tea".'),
        ("The title is 'Boats'.", "The title is 'boats'."),
        ("The title is „Boote“.", "The title is „boote“."),
        ("Run `rm  -R x`.", "Run `rm -R x`."),
        ("Run rm -R.", "Run rm -r."),
        ("Run rm --Force.", "Run rm --force."),
        ("Call find(Mia,  x).", "Call find(Mia, x)."),
        ("Call find(Mia).", "Call find(mia)."),
        ("The file is Notes.Txt.", "The file is notes.txt."),
        ("Set PATH=Mia.", "Set PATH=mia."),
        ("The title is ‘A  boat’.", "The title is ‘A boat’."),
        ("The title is ‘Mia’s Boat’.", "The title is ‘Mia’s boat’."),
        ("The title is ‚Boote‘.", "The title is ‚boote‘."),
        ("The title is ”Båtar”.", "The title is ”båtar”."),
        ("The title is ‹Boote›.", "The title is ‹boote›."),
        ("The title is ›Boote‹.", "The title is ›boote‹."),
        ("The title is »Boote«.", "The title is »boote«."),
        ("The title is 『Mia』.", "The title is 『mia』."),
        ("The key is ab-CD.", "The key is AB-cd."),
        ("The key is ABC*def.", "The key is abc*DEF."),
        ("It uploads at 10 Mb.", "It uploads at 10 MB."),
        ("It uploads at 10 Mb, at most.", "It uploads at 10 MB, at most."),
        ("It has a 10-Mb line.", "It has a 10-MB line."),
        ("It costs 5 M.", "It costs 5 m."),
        ("The password is abc1!", "The password is abc1"),
        ("The password is aBc!", "The password is aBc."),
        ("The files are in /tmp/mia!", "The files are in /tmp/mia"),
    ],
)
def test_hash_keeps_apart_what_punctuation_tells_apart(one: str, other: str) -> None:
    assert content_digest(one) != content_digest(other)


def test_hash_keeps_scripts_apart_and_knows_when_there_is_nothing_to_compare() -> None:
    """C15: the seed's normal form is empty for every text that isn't Latin, so that all of them collide."""
    assert content_digest("日本茶が好き") != content_digest("コーヒーが好き")
    assert content_digest("Привет") is not None
    assert content_digest("!?… 👍") is None


def test_tokens_are_characters_by_four_and_a_half_rounded_up() -> None:
    assert [count_tokens("x" * n) for n in (0, 1, 9, 10)] == [0, 1, 2, 3]  # R279


def test_one_line() -> None:
    assert one_line(" a\n\n b\tc ") == "a b c"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Mia sails. She has a boat!  Why? Because…", ["Mia sails.", "She has a boat!", "Why?", "Because…"]),
        ("Version 1.5 costs 3.50 euros.", ["Version 1.5 costs 3.50 euros."]),
        ('She said "yes." Then she left.', ['She said "yes."', "Then she left."]),
        ("米娅喜欢茶。她住在卑尔根！为什么？", ["米娅喜欢茶。", "她住在卑尔根！", "为什么？"]),
        ("她说「好。」然后走了。", ["她说「好。」", "然后走了。"]),
        ("मिया नाव चलाती है। उसे चाय पसंद है।", ["मिया नाव चलाती है।", "उसे चाय पसंद है।"]),
        ("هل تحب الشاي؟ نعم.", ["هل تحب الشاي؟", "نعم."]),
        ("One\n\n- two\n", ["One", "- two"]),
        (" \n", []),
    ],
)
def test_sentences_of_many_scripts(text: str, found: list[str]) -> None:
    assert sentences(text) == found


@given(st.text("ab \n\t\u00a0.!?…؟।\"')]”»"))
def test_sentences_are_the_same_behind_one_of_a_script_without_spaces(text: str) -> None:
    assert sentences(f"茶。\n{text}") == ["茶。", *sentences(text)]


@given(st.text())
def test_sentences_lose_nothing_but_white_space(text: str) -> None:
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "cleaned", "changes"),
    [
        ("a\x07b\x7fc\x9bd", "abcd", ("controls",)),
        ("page\x0cline\x85line\x0bline", "page\nline\nline\nline", ("controls",)),
        ("a\u202egpj.exe\u202c", "agpj.exe", ("bidi_controls",)),
        ("\u2066one\u2069 \u2067two\u2069", "one two", ("bidi_controls",)),
        ("pass\u200bword \ufeffx", "password x", ("zero_width",)),
        ("i\u200dgnore\u200c all", "ignore all", ("zero_width",)),
        ("می\u200c\u200c\u200cخواهم", "می\u200cخواهم", ("zero_width",)),
        ("\U0001f3f4\U000e0067\U000e0062\U000e007f", "\U0001f3f4", ("tag_characters",)),
        ("😀\ufe0f" + "".join(chr(0xE0100 + ord(c) - 16) for c in "obey"), "😀\ufe0f", ("zero_width",)),
        ("葛\U000e0101\U000e0102", "葛\U000e0101", ("zero_width",)),
        ("o\ufe01b\ufe02e\ufe0fy 1\ufe0f", "obey 1", ("zero_width",)),
        ("ᠠ\u180c\u180b a\u180b", "ᠠ\u180c a", ("zero_width",)),
        ("ok\u2062\u2064\u2062\u2060\u206a", "ok", ("zero_width",)),
        ("ok\u3164\uffa0\u115f\u1160\u115f\ufff9\U0001d173", "ok", ("zero_width",)),
        ("\u115f", "", ("zero_width",)),
        ("a\u1160b\u115f \u1100\u1160", "ab \u1100\u1160", ("zero_width",)),
        ("ok\U000e0080\U000e0fff", "ok", ("tag_characters",)),
    ],
)
def test_clean_takes_out_what_hides_and_turns_round(text: str, cleaned: str, changes: tuple[str, ...]) -> None:
    assert clean(text) == (cleaned, changes)


@pytest.mark.parametrize(
    "text",
    [
        "نمی\u200cخواهم", "क्\u200dष", "ന്\u200d", "👩\u200d👩\u200d👧", "❤️\u200d🔥", "👩🏽\u200d🚀", "🏳️\u200d🌈", "1️⃣",
        "שלום\u200f (a)\u200e", "e\u0301", "a\u00a0b", "a\u00adb", "tab\tline\r\n", "\u2028",
        "葛\U000e0101城", "☺︎ ☺️ ‼️ ™️ ㊗️", "#️⃣", "≨\ufe00", "ᠠ\u180b", "\u115f\u1161",
    ],
)  # fmt: skip
def test_clean_keeps_what_is_written_with(text: str) -> None:
    assert clean(text) == (text, ())


@pytest.mark.parametrize(
    "place", [*range(0x115F, 0x1161), *range(0x180B, 0x1810), 0x3164, *range(0xFE00, 0xFE10), 0xFFA0]
)
def test_text_with_what_is_printable_and_not_seen_is_not_plain(place: int) -> None:
    assert not looks_plain(f"grün {chr(place)} und rot")
    assert not looks_plain(f"grün {chr(0xE0100 + place % 240)} und rot")
    assert looks_plain("Grüne Boote – «im Hafen» 港 한국어 ☺")


@pytest.mark.parametrize("cluster", ["e\u0301\u0323", "👩🏽\u200d🚀", "🇩🇪", "क्षि", "\u1112\u1161\u11ab", "ก็"])
@pytest.mark.parametrize("shift", range(4))
def test_a_cut_never_splits_what_is_seen_as_one(cluster: str, shift: int) -> None:
    text = "x" * shift + cluster * 20
    for most in range(2, 30):
        for short in (shortened(text, most), cut(text, most)):
            assert len(short) <= most
            kept = short.removesuffix("…")[shift:]
            assert kept == cluster * (len(kept) // len(cluster))
