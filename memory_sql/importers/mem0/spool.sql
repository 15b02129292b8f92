-- The table of a spool (SQLite) while mem0's memories are read. Meaning of the columns: memory_sql/importers/mem0/spool.py.
CREATE TABLE placed (ref TEXT PRIMARY KEY, agent TEXT, owner TEXT, at REAL, digest BLOB, conversation TEXT, body BLOB);
