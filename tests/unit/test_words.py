import re

import pytest

from memory_sql.languages import words
from memory_sql.languages.words import fold, search_extra, terms_of, words_in


def forms_asked(query: str) -> set[str]:
    return {form for word in words_in(query) for term in terms_of(word) for form in (*term.words, *term.extra)}


@pytest.mark.parametrize(
    ("text", "extra"),
    [
        ("The gate is shut, isn't it?", ""),
        ("C++ and C#", "cx2bx2b c cx23"),
        ("uteke-cloud-dev", "utekex2dcloudx2ddev uteke cloud dev"),
        ("80 GB/s", "gbx2fs gb s"),
        ("getUserName", "getusername get user name"),
        ("Café Åse", "cafe ase"),
        ("Straße", "strasse"),
        ("ＡＢＣ", "abc"),
        ("東京駅", "東京 京駅 東 京 駅"),
        ("AIで", "で ai"),
        ("สวัสดี", "สว วx0e31 x0e31ส สด ดx0e35"),
        ("👍", "x1f44d"),
    ],
)
def test_forms_that_a_parser_would_miss_are_stored(text: str, extra: str) -> None:
    assert search_extra(text).replace("xe", "x0e") == extra


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("c++", "I write C++ all day."),
        ("uteke-cloud-dev", "The server is uteke-cloud-dev."),
        ("cloud", "The server is uteke-cloud-dev."),
        ("gb/s", "It does 80 GB/s."),
        ("mia@example.org", "Write to mia@example.org."),
        ("example.org", "See https://example.org/a?b=1"),
        ("user", "It is called getUserName."),
        ("cafe", "At the café"),
        ("naïve", "a naïve plan"),
        ("東京", "昨日東京駅に行った"),
        ("猫", "黒い猫がいる"),
        ("हिन्दी", "मैं हिन्दी बोलता हूँ"),
        ("👍", "Great 👍!"),
    ],
)
def test_what_is_asked_for_meets_what_is_stored(query: str, text: str) -> None:
    assert forms_asked(query) & {*search_extra(text).split(), *text.lower().split()}


def test_accents_are_folded_vowel_signs_are_not() -> None:
    assert fold("Ångström") == "angstrom"
    assert fold("हिन्दी") == "हिन्दी"


def test_words_have_no_possessive_and_no_endless_one_counts() -> None:
    assert list(words_in("Mia's boat isn't Jonas’ " + "x" * 3000)) == ["Mia", "boat", "isn", "Jonas"]


def test_a_compound_asks_for_the_whole_and_its_parts() -> None:
    assert [term.text for term in terms_of("uteke-cloud")] == ["uteke-cloud", "uteke", "cloud"]


def test_the_letters_of_han_that_patterns_leave_out_are_letters() -> None:
    letters = [chr(code) for code in range(0x3400, 0xA000) if re.match(f"[{words._HAN_LETTERS}]", chr(code))]
    assert len(letters) == 27_584
    assert all(re.match(r"[^\W_]", letter) for letter in letters)
    assert words._UNSPACED[0] == min(re.findall(f"[{words._UNSPACED}]", "".join(map(chr, range(0x20000)))))
