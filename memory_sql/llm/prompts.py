"""A prompt is a file beside the step that asks it: a version, instructions, a prompt, and slots named `{{so}}`.

What a scope may not replace of the instructions (what is data, how to answer) stands in parts of its own, `## data` and
`## answer`, which the instructions name as slots.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from importlib import resources

from memory_sql.errors import ConfigurationError, InputError

KEPT = ("data", "answer")  # the parts that instructions of a scope's own have to name, each once
_SLOT = re.compile(r"\{\{(\w+)\}\}")
_FORMAT = re.compile(
    r"version: *(?P<version>\w+)\s+## instructions\s+(?P<instructions>.*?)\s+"
    r"(?:## data\s+(?P<data>.*?)\s+## answer\s+(?P<answer>.*?)\s+)?## prompt\s+(?P<prompt>.*?)\s*",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """`version` is `name@version+hash`: the hash changes with every edit, also where the number was forgotten."""

    name: str
    version: str
    instructions: str
    prompt: str
    parts: Mapping[str, str] = field(default_factory=dict)

    @property
    def slots(self) -> frozenset[str]:
        return frozenset(_SLOT.findall(self.instructions)) | frozenset(_SLOT.findall(self.prompt))

    def render(self, **slots: str | int) -> tuple[str, str]:
        """Instructions and prompt with every slot filled; raises `TypeError` for a missing or an unknown slot.

        A value is inserted as it is: what looks like a slot inside it stays text.
        """
        missing, unknown = self.slots - slots.keys(), slots.keys() - self.slots
        if missing or unknown:
            raise TypeError(f"prompt {self.name}: missing {sorted(missing)}, unknown {sorted(unknown)}")
        return _fill(self.instructions, slots).rstrip(), _fill(self.prompt, slots).rstrip()

    def instructed(self, instructions: str | None, version: str) -> Prompt:
        """With a scope's own instructions in place of these; `version` joins that of the file.

        They have passed `check_instructions`, and keep the parts. Without any, what the scope says stands in the prompt.
        """
        own = self.instructions if instructions is None else _fill(instructions, self.parts)
        return replace(self, instructions=own, version=f"{self.version}+{version}")


def check_instructions(body: str) -> None:
    """Raises `InputError` unless the text names each of the parts that every prompt keeps, once, and no other slot."""
    named = _SLOT.findall(body)
    if sorted(named) != sorted(KEPT):
        wanted = " and ".join(f"{{{{{part}}}}}" for part in KEPT)
        raise InputError(
            f"an override needs the slots {wanted}, each once, and no others: there the prompt says what is data and what"
            " form the answer has"
        )


@cache
def load(package: str, name: str) -> Prompt:
    """The prompt that ships with this package of ours, as `prompt.md`; `name` stands in its version."""
    source = resources.files(package) / "prompt.md"
    if not source.is_file():
        raise ConfigurationError(f"{package} has no prompt")
    return parse(name, source.read_text(encoding="utf-8"))


def parse(name: str, text: str) -> Prompt:
    """The prompt that `text`, in the format of those files, describes."""
    text = text.replace("\r\n", "\n")  # the version is the same on every platform
    found = _FORMAT.fullmatch(text)
    if found is None or not found["prompt"]:
        raise ConfigurationError(f"prompt {name}: needs 'version:', '## instructions' and '## prompt', in this order")
    version = f"{name}@{found['version']}+{sha256(text.encode()).hexdigest()[:8]}"
    parts = {part: found[part] for part in KEPT if found[part]}
    instructions = _fill(found["instructions"], parts) if parts else found["instructions"]
    return Prompt(name, version, instructions, found["prompt"], parts)


def _fill(template: str, slots: Mapping[str, str | int]) -> str:
    return _SLOT.sub(lambda slot: str(slots[slot[1]]), template)
