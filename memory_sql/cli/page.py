"""The pages that the demos print, and the example that they use."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from memory_sql.cli import output

if TYPE_CHECKING:
    from rich.console import Console

    from memory_sql.config import Settings

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

    def dim(self, text: str, indent: str = "   ", hanging: str = "") -> None:
        self.say(text, indent, hanging, "dim")


def model_text(settings: Settings) -> str:
    if settings.llm_name == "offline":
        from memory_sql.llm.offline import NAME

        return f"model: {NAME}: rules that quote, not a language model (set OPENAI_API_KEY for one)"
    return f"model: {settings.fast_model}, and {settings.slow_model} for the texts"


def shown_with(url: str | None, data: Path | None) -> Settings:
    """The settings of a demo, with the rules if they name no model."""
    from memory_sql.cli.options import resolve

    settings = resolve(url, data)
    return settings if settings.llm_name else settings.model_copy(update={"llm": "offline"})


def option(url: str | None, data: Path | None) -> str:
    """The option that names the same database on the command line."""
    if url is not None:
        return f"--url {shlex.quote(output.masked(url))}"
    directory = (data or Path()).absolute()
    if directory.is_relative_to(Path.home()):
        return f"--data ~/{shlex.quote(str(directory.relative_to(Path.home())))}"
    return f"--data {shlex.quote(str(directory))}"
