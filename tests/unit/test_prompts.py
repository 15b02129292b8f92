from __future__ import annotations

import re

import pytest

from memory_sql.consolidation.task import ENDED
from memory_sql.errors import ConfigurationError
from memory_sql.llm import prompts

SHIPPED = {
    "extraction": ("memory_sql.formation", "extraction"),
    "consolidation": ("memory_sql.consolidation", "consolidation"),
    "propagation": ("memory_sql.propagation", "propagation"),
}
EXTRACTION: dict[str, str | int] = {
    "scopes": "individual: Mia\ngroup:atlas: project Atlas\ncollective: everybody",
    "memory": "--- b0undary begin memory\nindividual: Mia drinks tea.\n--- b0undary end memory",
    "conversation": "== 2026-03-02 Monday\n3 P1 10:15 Hi",
    "boundary": "b0undary",
    "max_items": 12,
    "group_items": 20,
    "max_words": 50,
    "now": "2026-03-02T10:20Z",
    "lists": '{"individual": []}',
    "repair": "",
    "classes": "\n- `category`: fact or moment;",
}
CONSOLIDATION: dict[str, str | int] = {
    "scope": "individual",
    "whose": '"Mia"',
    "current": 's1 "Nothing yet."',
    "known": 'k1 2026-03-01T10:15Z "Mia drinks."',
    "ended": ENDED.format(mark="b0undary", ended='fulfilled 2026-03-01T10:15Z "Mia will drink."'),
    "observations": 'n1 2026-03-02T10:15Z "Mia drinks tea."',
    "max_words": 500,
    "boundary": "b0undary",
    "now": "2026-03-02T10:20Z",
    "guidance": "",
}


@pytest.mark.parametrize(("name", "slots"), [("extraction", EXTRACTION), ("consolidation", CONSOLIDATION)])
def test_a_prompt_has_the_slots_that_its_step_fills(name: str, slots: dict[str, str | int]) -> None:
    assert prompts.load(*SHIPPED[name]).slots == slots.keys()
    instructions, prompt = prompts.load(*SHIPPED[name]).render(**slots)
    assert "{{" not in instructions + prompt
    for value in slots.values():
        assert str(value) in instructions + prompt


def fenced_by(slot: str, slots: dict[str, str | int]) -> str | int:
    return (
        f"whose {slots['whose']}\n{slots[slot]}" if (slot, "whose" in slots) == ("observations", True) else slots[slot]
    )


def test_what_others_wrote_is_only_in_the_prompt_and_inside_of_the_marks() -> None:
    for name, slots, fenced in [
        ("extraction", EXTRACTION, ["individual: Mia drinks tea.", EXTRACTION["conversation"]]),
        (
            "consolidation",
            CONSOLIDATION,
            [
                *(fenced_by(slot, CONSOLIDATION) for slot in ("current", "known")),
                'fulfilled 2026-03-01T10:15Z "Mia will drink."',
                fenced_by("observations", CONSOLIDATION),
            ],
        ),
    ]:
        instructions, prompt = prompts.load(*SHIPPED[name]).render(**slots)
        inside = re.findall(r"^--- b0undary begin \w+\n(.*?)\n--- b0undary end \w+$", prompt, re.DOTALL | re.MULTILINE)
        assert inside == fenced
        assert not any(str(one) in instructions for one in fenced)


def test_instructions_of_extraction_are_the_same_in_every_call() -> None:
    """So that providers can keep them. What an observation is is asked of all or of none, by the agent's settings."""
    assert set(re.findall(r"\{\{\w+", prompts.load(*SHIPPED["extraction"]).instructions)) == {"{{classes"}


@pytest.mark.parametrize("name", SHIPPED)
def test_no_prompt_holds_an_example_that_could_pass_for_memory(name: str) -> None:
    """A weak model remembers it: no day, no name, no sentence, but `<what stands there>`."""
    prompt = prompts.load(*SHIPPED[name])
    text = f"{prompt.instructions}\n{prompt.prompt}"
    assert re.search(r"\b\d{4}-\d\d-\d\d\b|\b\d{1,2}:\d\d\b", text) is None
    quoted = re.findall(r'"([^"\n]+)"', text)
    assert [words for words in quoted if len(words.split()) > 4 and "<" not in words] == []


def test_guidance_stands_outside_the_marks_and_may_be_empty() -> None:
    """Nor among the instructions, which are the same in every call."""
    prompt = prompts.load(*SHIPPED["consolidation"])
    plain, guided = (prompt.render(**CONSOLIDATION | {"guidance": text}) for text in ("", "Be brief."))
    assert plain[0] == guided[0]
    assert "\nBe brief.\nAnswer with" in guided[1].rpartition("end observations")[2]


@pytest.mark.parametrize("name", sorted(SHIPPED.keys() - {"extraction"}))
def test_instructions_have_no_slots(name: str) -> None:
    assert "{{" not in prompts.load(*SHIPPED[name]).instructions


def test_rendering_refuses_missing_and_unknown_slots() -> None:
    prompt = prompts.load(*SHIPPED["extraction"])
    with pytest.raises(TypeError, match=r"missing \['now'\], unknown \[\]"):
        prompt.render(**{name: value for name, value in EXTRACTION.items() if name != "now"})
    with pytest.raises(TypeError, match=r"missing \[\], unknown \['nwo'\]"):
        prompt.render(**EXTRACTION, nwo="")


def test_a_value_that_looks_like_a_slot_stays_text() -> None:
    slots = EXTRACTION | {"conversation": r"{{memory}} {{nonsense}} \g<0> \1", "memory": "begin memory\n{{boundary}}\n"}
    _, prompt = prompts.load(*SHIPPED["extraction"]).render(**slots)
    assert r"{{memory}} {{nonsense}} \g<0> \1" in prompt
    assert "begin memory\n{{boundary}}\n" in prompt


def test_the_version_names_the_file_and_changes_with_it() -> None:
    assert re.fullmatch(r"extraction@9\+[0-9a-f]{8}", prompts.load(*SHIPPED["extraction"]).version)
    text = "version: 2\n\n## instructions\n\nBe {{kind}}.\n\n## prompt\n\nSay {{what}}.\n"
    prompt = prompts.parse("say", text)
    assert (prompt.instructions, prompt.prompt) == ("Be {{kind}}.", "Say {{what}}.")
    assert prompt.version.startswith("say@2+")
    assert prompts.parse("say", text.replace("Say", "Tell")).version != prompt.version
    assert prompts.parse("say", text.replace("\n", "\r\n")).version == prompt.version


@pytest.mark.parametrize("package", ["memory_sql", *(f"memory_sql.{name}" for name in ("llm", "domain", "cli", "db"))])
def test_an_unknown_prompt_is_a_wrong_setting(package: str) -> None:
    with pytest.raises(ConfigurationError):
        prompts.load(package, "extraction")


@pytest.mark.parametrize(
    "text",
    ["", "version: 1", "## instructions\n\na\n\n## prompt\n\nb", "version: 1\n\n## instructions\n\na\n\n## prompt\n"],
)
def test_a_file_without_its_parts_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        prompts.parse("broken", text)
