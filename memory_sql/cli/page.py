"""The pages that the demos print, and the example that they use."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from memory_sql.cli import output

if TYPE_CHECKING:
    from rich.console import Console

    from memory_sql.config import Settings

WIDTH = 90  # of a command beside its indent
_PACKAGE = Path(__file__).parents[1]


def example() -> Path:
    """The example conversations: inside the package when installed from a wheel, beside it in a checkout."""
    shipped = _PACKAGE / "examples"
    return (shipped if shipped.is_dir() else _PACKAGE.parent / "examples") / "team.jsonl"


@dataclass(slots=True)
class Clock:
    """Replays the time of the conversations, so that ages are the same whenever a demo runs."""

    now: datetime = datetime(2026, 3, 2, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


@dataclass(slots=True)
class Page:
    """Prints titles and text, in colour on a terminal, plain in a pipe; nothing if `quiet`."""

    quiet: bool
    steps: int = 0
    console: Console = field(default_factory=_console)

    def step(self, title: str) -> None:
        self.steps += 1
        if not self.quiet:
            self.console.print()
            self.console.print(f"{self.steps}  {title}", style="bold cyan", soft_wrap=True)

    def say(self, text: str, indent: str = "   ", hanging: str = "", style: str = "") -> None:
        if not self.quiet:
            self.console.print(output.indented(text, indent, hanging=hanging), style=style, soft_wrap=True)

    def commands(self, commands: Iterable[str]) -> None:
        """Not wrapped: each can be copied."""
        for command in () if self.quiet else commands:
            self.console.print(output.plain(command), soft_wrap=True)

    def dim(self, text: str, indent: str = "   ", hanging: str = "") -> None:
        self.say(text, indent, hanging, "dim")


def model_text(settings: Settings) -> str:
    if settings.llm_name == "offline":
        from memory_sql.llm.offline import NAME

        return f"model: {NAME}: rules that quote, not a language model (--live asks that of your settings)"
    return f"model: {settings.fast_model}, and {settings.slow_model} for the texts"


def shown_with(url: str | None, data: Path | None, *, live: bool) -> Settings:
    """The settings of a demo: with the rules, unless the models of the settings are asked for, which may cost money."""
    from memory_sql.cli.options import resolve

    settings = resolve(url, data)
    if live:
        return settings
    free = "off" if settings.embedding == "openai" else settings.embedding
    return settings.model_copy(update={"llm": "offline", "embedding": free})


def runnable(command: str, *options: str) -> str:
    """A line of the shell that works as it is printed, on two lines if it is long."""
    name, _, rest = command.partition(" ")
    beside = Path(sys.executable).with_name(name)
    if beside.is_file() and shutil.which(name) != str(beside):
        name = shlex.quote(os.path.relpath(beside) if beside.is_relative_to(Path.cwd()) else str(beside))
    parts = [" ".join([name, rest]), *options]
    return " ".join(parts) if sum(map(len, parts)) <= WIDTH else " \\\n    ".join(parts)


def option(url: str | None, data: Path | None) -> str:
    """The option that names the same database on the command line."""
    if url is not None:
        return f"--url {shlex.quote(output.masked(url))}"
    directory = (data or Path()).absolute()
    if directory.is_relative_to(Path.home()):
        return f"--data ~/{shlex.quote(str(directory.relative_to(Path.home())))}"
    return f"--data {shlex.quote(str(directory))}"
