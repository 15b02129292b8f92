"""Files in a folder: which are read, and how they are opened. Nothing outside the folder is ever read."""

from __future__ import annotations

import gzip
import os
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from typing import IO, cast

from memory_sql.errors import SourceError
from memory_sql.importers.mongo.sources.source import Part, in_order, known_names

GZIP = ".gz"
_READING = os.O_RDONLY | sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))


class BrokenError(Exception):
    """A document can't be read. `ends_part`: nor anything after it."""

    def __init__(self, reason: str, *, ends_part: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.ends_part = ends_part


@dataclass(frozen=True, slots=True)
class Folder:
    """The files of known collections in a folder, by their suffixes."""

    path: Path
    endings: tuple[str, ...]
    names: Mapping[str, str]

    def parts(self) -> tuple[Part, ...]:
        """A part has an error if it isn't a plain file of this folder, or duplicates a collection. Raises `SourceError`."""
        known = known_names(self.names)
        found: dict[str, Part] = {}
        for entry in _entries(self.path):
            stem = self.stem(entry.name)
            if stem not in known:
                continue
            size, error = _plain_file(entry)
            if stem in found:
                error = SourceError(entry.name, 0, f"{found[stem].name} holds the same collection")
            found[stem if error is None else entry.name] = Part(known[stem], entry.name, size, error=error)
        return in_order(iter(found.values()))

    def stem(self, name: str) -> str | None:
        plain = name.removesuffix(GZIP)
        return next((plain.removesuffix(ending) for ending in self.endings if plain.endswith(ending)), None)

    @contextmanager
    def opened(self, name: str) -> Iterator[IO[bytes]]:
        """Opens a file and decompresses it. Symbolic links aren't followed. Raises `SourceError`."""
        if Path(name).name != name or name == os.pardir:
            raise SourceError(name, 0, "it isn't in the folder")
        try:
            number = os.open(self.path / name, _READING)
        except OSError as error:
            raise SourceError(name, 0, error.strerror or "it can't be opened") from error
        if not stat.S_ISREG(os.fstat(number).st_mode):  # it was one when the folder was listed
            os.close(number)
            raise SourceError(name, 0, "it isn't a plain file")
        with os.fdopen(number, "rb") as raw:
            if not name.endswith(GZIP):
                yield raw
                return
            with gzip.GzipFile(fileobj=raw) as unpacked:
                yield BufferedReader(cast("BufferedIOBase", unpacked), 1 << 16)


def only_folder(path: Path, endings: tuple[str, ...], names: Mapping[str, str]) -> Folder:
    """The folder itself, or its only subfolder with files of known collections: mongodump makes one for each database."""
    here = Folder(path, endings, names)
    if here.parts():
        return here
    below = [Folder(Path(entry.path), endings, names) for entry in _entries(path) if _is_own_folder(entry)]
    filled = [folder for folder in below if folder.parts()]
    if len(filled) > 1:
        raise SourceError(
            path.name, 0, f"several databases: {', '.join(sorted(f.path.name for f in filled))}; name one"
        )
    return filled[0] if filled else here


def read_of(file: IO[bytes]) -> int:
    """How many bytes of the file have been read, before decompression; 0 if it is closed."""
    if file.closed:
        return 0
    packed = getattr(file, "raw", None)
    raw = cast("IO[bytes]", packed.fileobj) if isinstance(packed, gzip.GzipFile) else file
    return raw.tell()


def skip(file: IO[bytes], count: int) -> None:
    """Skips `count` bytes, counted after decompression."""
    with readable():
        if file.seekable() and not isinstance(getattr(file, "raw", None), gzip.GzipFile):
            file.seek(count, os.SEEK_CUR)
            return
        while count > 0:
            read = len(file.read(min(count, 1 << 20)))
            if read == 0:
                raise BrokenError("it ends before the place where reading should resume", ends_part=True)
            count -= read


@contextmanager
def readable() -> Iterator[None]:
    """Raises errors of reading and decompressing as `BrokenError`."""
    try:
        yield
    except EOFError as error:
        raise BrokenError("the packed file is truncated", ends_part=True) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise BrokenError("it isn't valid gzip", ends_part=True) from error
    except OSError as error:
        raise BrokenError(error.strerror or "it can't be read", ends_part=True) from error


def _entries(path: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise SourceError(path.name, 0, error.strerror or "it can't be read") from error


def _is_own_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)


def _plain_file(entry: os.DirEntry[str]) -> tuple[int, SourceError | None]:
    """Its size, and an error if it isn't a plain file."""
    if entry.is_symlink():
        return 0, SourceError(entry.name, 0, "it is a symbolic link")
    found = entry.stat(follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode):
        return 0, SourceError(entry.name, 0, "it isn't a plain file")
    return found.st_size, None
