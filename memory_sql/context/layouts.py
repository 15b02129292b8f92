"""Parts of a context → XML, in one of two layouts. Pure.

Remembered text is data: escaped, and without the characters that XML can't hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from memory_sql.config import ContextFormat
from memory_sql.domain.layer import ScopeRef
from memory_sql.domain.reading import ContextLine, ContextPart
from memory_sql.languages.invisible import looks_plain, without_invisible
from memory_sql.languages.text import token_counts

NOTHING = "<MemoryContext/>"
TRUNCATED = ' truncated="true"'
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_CONTROLS = bytes({*range(32), 127} - {9, 10, 13})

Attributes = tuple[tuple[str, str], ...]
Role = Literal["text", "buffer", "pending", "disputed", "retrieved", "messages", "episodes"]


class Block(NamedTuple):
    """A scope's text, or lines of one kind, `times` being theirs; `cut`: there was more of it.

    `attributes` are names and values, `text` is as it was stored, `xml` the same escaped. `own`: the lines stand at
    the end of the element of that scope's text. `newer_than` is that element, of pending lines of a scope with a text: it
    doesn't hold them yet. `behind`: so many of the last lines stand only behind all others. `title` and `heading` are for
    the legacy layout.
    """

    role: Role
    element: str
    attributes: Attributes = ()
    scope: ScopeRef | None = None
    version: int = 0
    text: str = ""
    xml: str = ""
    lines: tuple[ContextLine, ...] = ()
    times: tuple[datetime, ...] = ()
    own: bool = False
    cut: bool = False
    title: str = ""
    heading: str = ""
    newer_than: str = ""
    behind: int = 0


class Piece(NamedTuple):
    """An element inside the outermost one. Its first `stable` characters don't change with the time or what is new."""

    xml: str
    element: str
    blocks: Sequence[Block]
    stable: int = 0


class Written(NamedTuple):
    """A whole context. Its first `stable` characters stay the same until memory itself changes."""

    xml: str
    tokens: int
    parts: tuple[ContextPart, ...]
    stable: int


class Layout(NamedTuple):
    """How `pieces` are made of blocks, and what stands around and between them."""

    attributes: str
    between: str
    pieces: Callable[[Sequence[Block]], list[Piece]]

    @property
    def frame(self) -> int:
        """The length of what stands around the pieces, if all of them are there."""
        return len(self._opened(False)) + len("\n</MemoryContext>")

    def write(self, blocks: Sequence[Block], *, incomplete: bool = False) -> Written:
        """`incomplete`: whole texts were left out."""
        pieces = self.pieces(blocks)
        xml = self.xml(pieces, incomplete=incomplete)
        whole, *tokens = token_counts([xml, *(piece.xml for piece in pieces)])
        parts = tuple(map(_part, pieces, tokens))
        return Written(xml, whole, parts, self._stable(pieces, incomplete))

    def xml(self, pieces: Sequence[Piece], *, incomplete: bool = False) -> str:
        """`incomplete`: whole texts were left out."""
        if not pieces:
            return NOTHING
        body = self.between.join([piece.xml for piece in pieces])
        return f"{self._opened(incomplete)}{body}\n</MemoryContext>"

    def _stable(self, pieces: Sequence[Piece], incomplete: bool, /) -> int:
        end, at = 0, len(self._opened(incomplete))
        for piece in pieces:
            end = at + piece.stable if piece.stable else end
            if piece.stable < len(piece.xml):
                break
            at += len(piece.xml) + len(self.between)
        return end

    def _opened(self, incomplete: bool, /) -> str:
        return f"<MemoryContext{self.attributes}{TRUNCATED if incomplete else ''}>\n"


def escape(text: str) -> str:
    """The text as XML character data: parsed again it is the same, but for what no XML can hold or nobody sees."""
    if not _is_plain(text):
        text = without_invisible(_NOT_XML.sub("", text))[0]
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("\r", "&#13;")


def escape_lines(texts: Sequence[str]) -> list[str]:
    """Each on one line, escaped; together, since a call costs as much as a line."""
    return escape("\n".join([" ".join(text.split()) for text in texts])).split("\n") if texts else []


def _is_plain(text: str) -> bool:
    """Whether it surely holds nothing that has to go. To look for that takes four times as long or more."""
    if not text.isascii():
        return text.replace("\n", "").isprintable() and looks_plain(text)
    encoded = text.encode("ascii")
    return len(encoded.translate(None, _CONTROLS)) == len(encoded)


def attribute(name: str, value: str) -> str:
    """With a space before it."""
    if not value.isalnum():
        value = escape(value).replace('"', "&quot;").replace("\t", "&#9;").replace("\n", "&#10;")
    return f' {name}="{value}"'


def _written(attributes: Attributes) -> str:
    return "".join([attribute(name, value) for name, value in attributes])


def _cut(*blocks: Block) -> str:
    return TRUNCATED if True in [block.cut for block in blocks] else ""


def _part(piece: Piece, tokens: int) -> ContextPart:
    sources: list[str] = []
    lines: list[ContextLine] = []
    version = None
    for block in piece.blocks:
        if block.scope is not None and block.role == "text":
            version = block.version if version is None else version
            sources.append(f"{block.scope.id}v{block.version}")
        lines += block.lines
    sources += [line.id for line in lines]
    return ContextPart(
        element=piece.element,
        scope=piece.blocks[0].scope,
        version=version,
        sources=tuple(sources),
        lines=tuple(lines),
        tokens=tokens,
        truncated=bool(_cut(*piece.blocks)),
    )


# The standard layout


def _standard(blocks: Sequence[Block]) -> list[Piece]:
    own: dict[str, list[Block]] = {}
    for block in blocks:
        if block.own and block.scope:
            own.setdefault(block.scope.id, []).append(block)
    pieces = []
    for block in blocks:
        if block.own and block.scope:
            mine = own.pop(block.scope.id, [])  # all of them where the first stands
            pieces += [_own_piece(mine)] if mine else []
        elif block.role == "text":
            pieces.append(_text_piece(block, []))
        else:
            listed = _listed(block, block.element, (*block.attributes, *_newer(block)))
            pieces.append(Piece(listed, block.element, [block]))
    return pieces


def _own_piece(blocks: Sequence[Block]) -> Piece:
    """An element with its lines at its end."""
    if blocks[0].role == "text":
        return _text_piece(blocks[0], blocks[1:])
    return Piece(_around(blocks[0], "\n".join(map(_recent, blocks))), blocks[0].element, blocks)


def _text_piece(text: Block, lines: Sequence[Block]) -> Piece:
    opened = f"<{text.element}{_written(text.attributes)}{_cut(text)}>\n{text.xml}"
    xml = "\n".join([opened, *map(_recent, lines), f"</{text.element}>"])
    return Piece(xml, text.element, [text, *lines], len(opened) if text.own else len(xml))


def _recent(block: Block) -> str:
    return _listed(block, "LatestObservations" if block.role == "buffer" else "RecentObservations", _newer(block))


def _newer(block: Block) -> Attributes:
    """In words, that what follows counts where that text says otherwise."""
    return (("newer_than", block.newer_than),) if block.newer_than else ()


def _listed(block: Block, element: str, attributes: Attributes) -> str:
    lines = "\n".join([line.text for line in block.lines])
    return f"<{element}{_written(attributes)}{_cut(block)}>\n{lines}\n</{element}>"


def _around(block: Block, inner: str) -> str:
    return f"<{block.element}{_written(block.attributes)}>\n{inner}\n</{block.element}>"


# The legacy layout (R290–R292): shards, the user, the conversation; what it has no place for follows


_IN_SCOPE: tuple[Role, ...] = ("buffer", "text", "pending")


def _legacy(blocks: Sequence[Block]) -> list[Piece]:
    told = [block for block in blocks if block.role in _IN_SCOPE]
    shards = [block for block in told if block.element not in ("UserMemory", "SessionMemory")]
    pieces = [
        *_shards(_by_scope(shards)),
        *_person(_by_scope(block for block in told if block.element == "UserMemory")),
        *_conversation([block for block in told if block.element == "SessionMemory"]),
    ]
    others = [block for block in blocks if block.role not in _IN_SCOPE]
    return pieces + [
        Piece(_indented(_listed(block, block.element, block.attributes)), block.element, [block]) for block in others
    ]


def _by_scope(blocks: Iterable[Block]) -> list[list[Block]]:
    """Of each scope its buffer, its text and what is recent; scopes with a text first."""
    scopes: dict[str, list[Block]] = {}
    for block in sorted(blocks, key=lambda block: block.role != "text"):
        scopes.setdefault(block.scope.id if block.scope else "", []).append(block)
    return [sorted(scope, key=lambda block: _IN_SCOPE.index(block.role)) for scope in scopes.values()]


def _shards(scopes: Sequence[Sequence[Block]]) -> list[Piece]:
    if not scopes:
        return []
    opened = '  <CollectiveMemory description="Shared memory across all your conversations">\n'
    inner = "\n\n".join(map(_shard, scopes))
    first = scopes[0][0]
    stable = len(opened) + len(_shard([first])) - len("\n    </MemoryShard>") if first.role == "text" else 0
    xml = f"{opened}{inner}\n  </CollectiveMemory>"
    return [Piece(xml, "CollectiveMemory", [block for scope in scopes for block in scope], stable)]


def _shard(scope: Sequence[Block]) -> str:
    """Marked as truncated where its text is, or the lines if they are all it has: else the mark would come and go."""
    sections = [_section(block, "Current consolidated shard memory") for block in scope]
    inner = _indented("\n\n".join(sections), 6)
    opened = f"<MemoryShard{attribute('name', scope[0].title)}{_cut(scope[0])}>"
    return f"    {opened}\n{inner}\n    </MemoryShard>"


def _section(block: Block, of_text: str) -> str:
    if block.role == "text":
        return f"## {of_text}:\n{block.xml}"
    lines = "\n".join([line.text for line in block.lines])
    return f"## {block.heading}:\n{lines}" if block.heading else lines


def _person(scopes: Sequence[Sequence[Block]]) -> list[Piece]:
    if not scopes:
        return []
    blocks = [block for scope in scopes for block in scope]
    sections = [
        "\n".join(
            [
                f"-- User Memory for {escape(scope[0].title)} --",
                *(_section(b, "Consolidated user memory") for b in scope),
            ]
        )
        for scope in scopes
    ]
    opened = f'  <UserMemory description="Memory and context specific to this user"{_cut(*blocks)}>'
    xml = f"{opened}\n{_indented(chr(10).join(sections), 4)}\n  </UserMemory>"
    return [Piece(xml, "UserMemory", blocks)]


def _conversation(blocks: Sequence[Block]) -> list[Piece]:
    if not blocks:
        return []
    inner = "\n".join(block.xml if block.role == "text" else _section(block, "") for block in blocks)
    opened = f'  <CurrentConversationContext description="Recent exchanges from this conversation"{_cut(*blocks)}>'
    xml = f"{opened}\n{_indented(inner, 4)}\n  </CurrentConversationContext>"
    return [Piece(xml, "CurrentConversationContext", blocks)]


def _indented(xml: str, spaces: int = 2) -> str:
    return "\n".join([f"{' ' * spaces}{line}" if line else line for line in xml.split("\n")])


LAYOUTS: Mapping[ContextFormat, Layout] = {
    "standard": Layout("", "\n", _standard),
    "legacy": Layout(' description="Your complete memory context for this conversation"', "\n\n", _legacy),
}
