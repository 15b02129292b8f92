"""The files of a folder or a zip, read as streams: nothing is unpacked to the disk, and no file is held whole."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from memory_sql.errors import InputError

MOST_FILES = 100_000
MOST_BYTES = 16 * 1024**3  # unpacked
_RATIO, _SMALL = 200, 10 * 1024**2  # text packs at most some 20 times
_READ = (".json", ".jsonl", ".ndjson", ".txt")
_AT_ONCE = 256 * 1024


class Source(NamedTuple):
    """A file that can be opened again. `size` in bytes, unpacked."""

    name: str
    size: int
    opened: Callable[[], IO[bytes]]

    def pieces(self, told: Callable[[int], None] | None = None) -> Iterator[bytes]:
        """Its content. `told` hears how many bytes have been read. Raises `InputError` where that fails."""
        try:
            with self.opened() as stream:
                while piece := stream.read(_AT_ONCE):
                    if told is not None:
                        told(len(piece))
                    yield piece
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise InputError(f"a broken zip: {error}") from None
        except OSError as error:
            raise InputError(error.strerror or str(error)) from None

    def head(self) -> bytes:
        """Its beginning."""
        return next(self.pieces(), b"")

    @property
    def stem(self) -> str:
        return PurePosixPath(self.name).stem


class Sources(NamedTuple):
    """Those that may hold messages, by name, and the names of zips beside them, which aren't read."""

    files: Sequence[Source]
    zips: Sequence[str]


def is_several(path: Path) -> bool:
    return path.is_dir() or (path.is_file() and zipfile.is_zipfile(path))


def of_file(path: Path, name: str) -> Source:
    try:
        size = path.stat().st_size
        with path.open("rb"):
            return Source(name, size, lambda: path.open("rb"))
    except OSError as error:
        raise InputError(error.strerror or str(error)) from None


def of_bytes(content: bytes, name: str) -> Source:
    return Source(name, len(content), lambda: io.BytesIO(content))


def of_stream(file: IO[bytes], name: str) -> Source:
    """Of a temporary file that stays open."""
    size = file.seek(0, io.SEEK_END)

    def opened() -> IO[bytes]:
        file.seek(0)
        return _Kept(file)

    return Source(name, size, opened)


class _Kept(io.BytesIO):
    """Reads another file, which isn't closed with it."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file

    def read(self, size: int | None = -1, /) -> bytes:
        return self._file.read(-1 if size is None else size)


@contextmanager
def sources_of(path: Path) -> Iterator[Sources]:
    """Raises `InputError` for an archive that isn't to be trusted."""
    if path.is_dir():
        yield _of_folder(path)
        return
    try:
        with zipfile.ZipFile(path) as archive:
            yield _of_zip(archive)
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise InputError(f"a broken zip: {error}") from None


def _of_folder(path: Path) -> Sources:
    inside = [one for one in sorted(path.rglob("*")) if one.is_file() and not one.is_symlink()]
    names = {one.relative_to(path).as_posix(): one for one in inside}
    wanted = [_inside(one, name) for name, one in names.items() if _is_wanted(name, _READ)]
    _limit(len(wanted), sum(one.size for one in wanted))
    return Sources(wanted, [name for name in names if _is_wanted(name, (".zip",))])


def _inside(path: Path, name: str) -> Source:
    try:
        return of_file(path, name)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _of_zip(archive: zipfile.ZipFile) -> Sources:
    inside = archive.infolist()
    wanted = sorted((one for one in inside if _is_wanted(one.filename, _READ)), key=lambda one: one.filename)
    _limit(len(inside), sum(one.file_size for one in wanted))
    for one in inside:
        _trust(one)
    sources = [Source(one.filename, one.file_size, _opening(archive, one)) for one in wanted]
    return Sources(sources, [one.filename for one in inside if _is_wanted(one.filename, (".zip",))])


def _opening(archive: zipfile.ZipFile, one: zipfile.ZipInfo) -> Callable[[], IO[bytes]]:
    return lambda: archive.open(one)


def _is_wanted(name: str, endings: tuple[str, ...]) -> bool:
    """Not the shadows that macOS puts beside the files of a zip, nor hidden files."""
    path = PurePosixPath(name)
    return path.suffix.lower() in endings and not path.name.startswith(".") and "__MACOSX" not in path.parts


def _limit(files: int, size: int) -> None:
    if files > MOST_FILES:
        raise InputError(f"{files:,} files; at most {MOST_FILES:,}")
    if size > MOST_BYTES:
        raise InputError(f"{size:,} bytes unpacked; at most {MOST_BYTES:,}")


def _trust(one: zipfile.ZipInfo) -> None:
    name = one.filename.replace("\\", "/")
    if name.startswith("/") or ".." in PurePosixPath(name).parts or name[1:2] == ":":
        raise InputError("a name in the zip leads out of it")
    if one.flag_bits & 1:
        raise InputError("the zip has a password: unpack it, and add the folder")
    if one.file_size > max(_SMALL, one.compress_size * _RATIO):
        raise InputError(f"a file in the zip would unpack to {one.file_size:,} bytes from {one.compress_size:,}")
