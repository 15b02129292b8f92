"""What the two kinds of folders have in common."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, ClassVar

from memory_sql.errors import SourceError
from memory_sql.importers.mongo.sources.files import Folder, only_folder, read_of
from memory_sql.importers.mongo.sources.source import Damaged, Found, Part, Place, Read, given_out
from memory_sql.languages.text import clean


class FolderSource:
    """The files of one folder. Raises `SourceError` if there is no such folder, or if it holds several databases.

    `names` gives the collection of files with other names, without their suffixes: `{"memory_user_stage":
    "memory_user"}`.
    """

    endings: ClassVar[tuple[str, ...]]
    documents: ClassVar[staticmethod[[IO[bytes], str, int], Iterator[Read]]]  # takes a file, its name and an offset

    def __init__(self, path: Path, *, names: Mapping[str, str] | None = None, keep_going: bool = False) -> None:
        self._folder = only_folder(path, self.endings, names or {})
        self._keep_going = keep_going
        self._file: IO[bytes] | None = None

    @property
    def position(self) -> int:
        return 0 if self._file is None else read_of(self._file)

    @property
    def name(self) -> str:
        return clean(self._folder.path.name)[0]  # which needn't be text at all

    async def parts(self) -> tuple[Part, ...]:
        found = [checked for part in self._folder.parts() if (checked := self._checked(part)) is not None]
        errors = [part.error for part in found if part.error is not None]
        if errors and not self._keep_going:
            raise errors[0]
        return tuple(found)

    async def read(self, part: Part, after: str | None = None) -> AsyncIterator[Read]:
        try:
            if part.error is not None:
                raise part.error
            with self._folder.opened(part.name) as file:
                self._file = file
                for item in self.documents(file, part.name, int(after or 0)):
                    yield item if isinstance(item, Found) else given_out(item, keep_going=self._keep_going)
        except SourceError as error:
            place = Place(part.name, 1, 0, after or "")
            yield given_out(Damaged(place, error, ends_part=True), keep_going=self._keep_going)

    async def close(self) -> None:
        """Does nothing: each file is closed once it has been read."""

    def _checked(self, part: Part) -> Part | None:
        """Returns None if the part has no documents of its own."""
        try:
            return part if part.error is not None or self.has_documents(self._folder, part.name) else None
        except SourceError as error:
            return replace(part, error=error)

    def has_documents(self, folder: Folder, name: str) -> bool:
        """Raises `SourceError`."""
        return True
