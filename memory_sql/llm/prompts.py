"""A prompt is a file beside the step that uses it: a version, instructions, a prompt, and slots such as `{{so}}`.

A scope may replace the instructions but not two parts of them: `## data` (what is data) and `## answer` (how to answer).
These are sections of their own, for which the instructions have slots.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from importlib import resources

from memory_sql.errors import ConfigurationError, InputError

KEPT = ("data", "answer")  # the parts that a scope's own instructions must name, each once
_SLOT = re.compile(r"\{\{(\w+)\}\}")
_FORMAT = re.compile(
    r"version: *(?P<version>\w+)\s+## instructions\s+(?P<instructions>.*?)\s+"
    r"(?:## data\s+(?P<data>.*?)\s+## answer\s+(?P<answer>.*?)\s+)?## prompt\s+(?P<prompt>.*?)\s*",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """`version` is `name@version+hash`. The hash changes with every edit, even if the number wasn't changed."""

    name: str
    version: str
    instructions: str
    prompt: str
    parts: Mapping[str, str] = field(default_factory=dict)

    @property
    def slots(self) -> frozenset[str]:
        return frozenset(_SLOT.findall(self.instructions)) | frozenset(_SLOT.findall(self.prompt))

    def render(self, **slots: str | int) -> tuple[str, str]:
        """Instructions and prompt with all slots filled. Raises `TypeError` for a missing or unknown slot.

        Values are inserted verbatim: what looks like a slot in a value stays text.
        """
        missing, unknown = self.slots - slots.keys(), slots.keys() - self.slots
        if missing or unknown:
            raise TypeError(f"prompt {self.name}: missing {sorted(missing)}, unknown {sorted(unknown)}")
        return _fill(self.instructions, slots).rstrip(), _fill(self.prompt, slots).rstrip()

    def instructed(self, instructions: str | None, version: str) -> Prompt:
        """Returns the prompt with a scope's own instructions. `version` is added to that of the file.

        The instructions have passed `check_instructions`, so they keep the parts. If there are none, the scope's guidance
        is in the prompt.
        """
        own = self.instructions if instructions is None else _fill(instructions, self.parts)
        return replace(self, instructions=own, version=f"{self.version}+{version}")


def check_instructions(body: str) -> None:
    """Raises `InputError` unless the text names each part that every prompt keeps, exactly once, and no other slot."""
    named = _SLOT.findall(body)
    if sorted(named) != sorted(KEPT):
        wanted = " and ".join(f"{{{{{part}}}}}" for part in KEPT)
        raise InputError(
            f"an override needs the slots {wanted}, each once, and no others: there the prompt says what is data and what"
            " form the answer has"
        )


@cache
def load(package: str, name: str, file: str = "prompt.md") -> Prompt:
    """The prompt in this file of a package of ours. `name` is part of its version."""
    source = resources.files(package) / file
    if not source.is_file():
        raise ConfigurationError(f"{package} has no prompt {file}")
    return parse(name, source.read_text(encoding="utf-8"))


def parse(name: str, text: str) -> Prompt:
    """Parses a prompt from the format of those files."""
    text = text.replace("\r\n", "\n")  # so that the version is the same on every platform
    found = _FORMAT.fullmatch(text)
    if found is None or not found["prompt"]:
        raise ConfigurationError(f"prompt {name}: needs 'version:', '## instructions' and '## prompt', in this order")
    version = f"{name}@{found['version']}+{sha256(text.encode()).hexdigest()[:8]}"
    parts = {part: found[part] for part in KEPT if found[part]}
    instructions = _fill(found["instructions"], parts) if parts else found["instructions"]
    return Prompt(name, version, instructions, found["prompt"], parts)


def _fill(template: str, slots: Mapping[str, str | int]) -> str:
    return _SLOT.sub(lambda slot: str(slots[slot[1]]), template)
