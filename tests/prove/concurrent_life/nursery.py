"""Worker processes for processes that can't fork: one process is forked before anything runs, and forks for others."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class Nursery:
    """`bear` takes the path of its log; what it returns is how the process ends."""

    def __init__(self, to: int, answers: int, folder: Path) -> None:
        self._to, self._answers, self.folder = os.fdopen(to, "w", buffering=1), os.fdopen(answers), folder
        self.alive: dict[int, Path] = {}
        self._born = 0

    def spawn(self) -> int:
        self._born += 1
        log = self.folder / f"worker-{self._born}.log"
        self._to.write(f"{log}\n")
        pid = int(self._answers.readline())
        self.alive[pid] = log
        return pid

    def kill(self, pid: int, number: signal.Signals = signal.SIGKILL) -> None:
        """It may have ended by itself."""
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        if number == signal.SIGKILL:
            del self.alive[pid]

    def ended(self) -> list[Path]:
        """The logs of those that have ended by themselves, since this was asked last."""
        ended = [pid for pid in self.alive if not _runs(pid)]
        return [self.alive.pop(pid) for pid in ended]

    def logs(self) -> Iterator[tuple[Path, str]]:
        return ((path, path.read_text()) for path in sorted(self.folder.glob("worker-*.log")))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def nursery(folder: Path, bear: Callable[[], int]) -> Iterator[Nursery]:
    """Ends all that it has borne."""
    heard, to = os.pipe()
    answers, answer = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(to)
        os.close(answers)
        try:
            _bear_on(heard, answer, bear)
        finally:  # never back into what the parent was doing
            os._exit(3)
    os.close(heard)
    os.close(answer)
    born = Nursery(to, answers, folder)
    try:
        yield born
    finally:
        for child in list(born.alive):
            born.kill(child)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _bear_on(heard: int, answer: int, bear: Callable[[], int]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    with os.fdopen(heard) as lines:
        for line in lines:
            pid = os.fork()
            if not pid:
                _be(Path(line.strip()), bear)
            os.write(answer, f"{pid}\n".encode())


def _be(log: Path, bear: Callable[[], int]) -> None:
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os._exit(bear())
    except BaseException:  # noqa: BLE001 (the end of a process)
        traceback.print_exc()
    finally:
        os._exit(3)
