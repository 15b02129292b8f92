"""The languages' files: what they may contain, and that all of it is used."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from functools import _lru_cache_wrapper
from pathlib import Path
from typing import Any

import pytest

from memory_sql.errors import ConfigurationError
from memory_sql.formation import intake
from memory_sql.languages import data
from memory_sql.languages.tables import Personal, Recall, Signals
from memory_sql.privacy import personal
from memory_sql.privacy.classify import classify, mask
from memory_sql.retrieval import asking
from memory_sql.retrieval.asking import read

FOLDER = Path(data.__file__).parent
Write = Callable[[str, str], None]


def forget() -> None:
    """Everything that is read once is read again."""
    for name, module in list(sys.modules.items()):
        if name.startswith("memory_sql."):
            for value in vars(module).values():
                if isinstance(value, _lru_cache_wrapper):
                    value.cache_clear()


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Adds text to a file of a copy of all languages, which is what is read from now on."""
    copy = tmp_path / "languages"
    shutil.copytree(FOLDER, copy, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    monkeypatch.setattr(data, "_folder", lambda: copy)

    def add(name: str, text: str) -> None:
        with (copy / name).open("a", encoding="utf-8") as file:
            file.write(f"\n{text}\n")
        forget()

    yield add
    monkeypatch.undo()
    forget()


def signal(text: str) -> str | None:
    return intake.signal_in("user", text)


# One more word


def test_a_phrase_is_added_in_the_file_of_its_language_alone(write: Write) -> None:
    said = "Schlag doch im Gedächtnis nach."
    assert read(said).recalls == ""
    write("german.toml", f"[recall.phrases.your_memory]\n\"{said}\" = '\\bim gedächtnis nach\\b'")
    assert read(said).recalls == "your_memory"


def test_a_signal_is_added_in_the_file_of_its_language_alone(write: Write) -> None:
    said = "Vari sempar in milanes."
    assert signal(said) is None
    write("norwegian.toml", f"[signals.standing_instruction]\n\"{said}\" = '\\bsempar\\b'")
    assert signal(said) == "standing instruction"


def test_a_language_is_a_new_file(write: Write) -> None:
    assert "health" not in classify("Hun har migrene").categories
    write("norwegian.toml", '[personal.health]\nwords = "migrene"\n[secrets]\npassword = ["passord"]\nsaid = ["er"]')
    assert "norwegian" in data.languages()
    assert "health" in classify("Hun har migrene").categories
    assert mask("Mitt passord er Fjord!77").found == ("password",)


def test_a_language_may_have_a_long_table_in_a_file_of_its_own(write: Write) -> None:
    assert "zorbla" not in data.names().given
    (data._folder().joinpath("german")).mkdir()  # type: ignore[attr-defined]
    write("german/names.toml", 'given = "zorbla"')
    assert "zorbla" in data.names().given


# What is wrong


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("german.toml", "[recal.anywhere]", "german.toml knows no [recal]; it knows function_words, recall"),
        ("german.toml", "[recall.any_where.usual]", "german [recall] knows no any_where; it knows phrases"),
        ("german.toml", "[recall.phrases.usual]\n\"wie immer\" = '{gibtsnicht}'", "has no {gibtsnicht}"),
        ("german.toml", "[recall.phrases.usual]\n\"wie immer\" = '(wie) immer'", "write (?:…) for (…)"),
        ("german.toml", "[recall.phrases.usual]\n\"wie immer\" = '(?:wie'", "missing )"),
        ("german.toml", '[recall.phrases.usual]\n"wie immer" = 3', "isn't written as it should be"),
        ("german.toml", "[recall", "german.toml can't be read"),
        ("english/names.toml", "first = 'x'", "english [names] knows no first; it knows given"),
    ],
)
def test_what_is_written_wrongly_is_named(write: Write, name: str, text: str, said: str) -> None:
    write(name, text)
    with pytest.raises(ConfigurationError) as raised:
        [data.of_all(kind) for kind in data.TABLES.values()]
    assert said in f"{raised.value}"


# Everything is used


@pytest.mark.parametrize("language", data.languages())
def test_every_file_can_be_read_whole(language: str) -> None:
    assert any(language in data.of_all(kind) for kind in data.TABLES.values())


def set_fields(table: Any, place: str) -> Iterator[str]:
    """The keys that have a value, those of tables within it included."""
    for name, value in table._asdict().items():
        if hasattr(value, "_fields"):
            yield from set_fields(value, f"{place}.{name}")
        elif value != getattr(type(table)(), name):
            yield f"{place}.{name}"


def all_fields(kind: Any, place: str) -> Iterator[str]:
    for name, value in kind()._asdict().items():
        if hasattr(value, "_fields"):
            yield from all_fields(type(value), f"{place}.{name}")
        else:
            yield f"{place}.{name}"


@pytest.mark.parametrize("key", data.TABLES)
def test_every_key_is_used_by_a_language(key: str) -> None:
    kind = data.TABLES[key]
    used = {field for language in data.of_all(kind) for field in set_fields(data.table(language, kind), key)}
    without_words = {f"personal.{category}.words" for category in ("identity", "contact")}
    assert set(all_fields(kind, key)) - used <= without_words


SIGNALS = [
    pytest.param(kind.replace("_", " "), example, id=example)
    for signals in data.of_all(Signals).values()
    for kind in Signals._fields
    for example in getattr(signals, kind)
]


@pytest.mark.parametrize(("name", "example"), SIGNALS)
def test_every_signal_is_one_under_its_example(name: str, example: str) -> None:
    assert signal(example) == name


@pytest.mark.parametrize("language", data.of_all(Personal))
def test_every_personal_word_tells_its_category(language: str) -> None:
    table = data.table(language, Personal)
    for category in personal.CATEGORIES:
        for word in getattr(table, category).words:
            assert category in classify(f"There was {word}, so it seems").categories, word


def test_recall_needs_words_that_tell_the_language() -> None:
    asked = {name for name, recall in data.of_all(Recall).items() if recall.phrases.kinds}
    assert len(asking._languages()) == len(asked) == 4
