"""The inspector: what memory knows, where from, who sees it, and how to make it forget. HTML without any script.

Pages call `Memory` alone. What they allow is what the routes of the API allow (`server/calls.py`): a page names the call that
it stands for, and is refused, and not linked to, where a key doesn't have its right.
"""

from memory_sql.server.pages.serving import add_pages

__all__ = ["add_pages"]
