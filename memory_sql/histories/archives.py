"""The files of a folder or a zip, in memory: nothing is unpacked to the disk."""

from __future__ import annotations

import zipfile
from pathlib import Path, PurePosixPath

from memory_sql.errors import InputError

MOST_FILES = 100_000
MOST_BYTES = 2 * 1024**3  # unpacked
_RATIO, _SMALL = 200, 10 * 1024**2  # text packs at most some 20 times
_READ = (".json", ".jsonl", ".txt")


def is_several(path: Path) -> bool:
    return path.is_dir() or (path.is_file() and zipfile.is_zipfile(path))


def files_of(path: Path) -> dict[str, bytes]:
    """By relative name, those that may hold messages. Raises `InputError` for an archive that isn't to be trusted."""
    return _of_folder(path) if path.is_dir() else _of_zip(path)


def _of_folder(path: Path) -> dict[str, bytes]:
    found = [one for one in sorted(path.rglob("*")) if one.suffix in _READ and one.is_file() and not one.is_symlink()]
    _limit(len(found), sum(one.stat().st_size for one in found))
    return {one.relative_to(path).as_posix(): one.read_bytes() for one in found}


def _of_zip(path: Path) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(path) as archive:
            inside = archive.infolist()
            wanted = [one for one in inside if PurePosixPath(one.filename).suffix in _READ]
            _limit(len(inside), sum(one.file_size for one in wanted))
            for one in inside:
                _trust(one)
            return {one.filename: archive.read(one) for one in wanted}
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise InputError(f"a broken zip: {error}") from None


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
        raise InputError("the zip has a password")
    if one.file_size > max(_SMALL, one.compress_size * _RATIO):
        raise InputError(f"a file in the zip would unpack to {one.file_size:,} bytes from {one.compress_size:,}")
