"""An application with tables and a history of its own that remembers by memory_sql. Start with README.md."""
