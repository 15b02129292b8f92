-- The tables of a spool (SQLite): what others need of a document, and the rows that come of records, as they are read.
-- Meaning of the columns: memory_sql/importers/mongo/spool.py; memory_sql/importers/ledger.py adds its own.
CREATE TABLE users (id TEXT PRIMARY KEY, canonical TEXT, is_agent INT, is_gone INT, name TEXT) WITHOUT ROWID;
CREATE TABLE sessions (id TEXT PRIMARY KEY, is_gone INT, body BLOB) WITHOUT ROWID;
CREATE TABLE blobs (agent TEXT, owner TEXT, written REAL, ref TEXT UNIQUE, has_text INT, body BLOB);
CREATE INDEX blobs_of ON blobs (agent, owner);
CREATE TABLE shards (agent TEXT, created REAL, id TEXT UNIQUE, body BLOB);
CREATE INDEX shards_of ON shards (agent);
CREATE TABLE listed (record TEXT, agent TEXT, holder TEXT, kind TEXT, is_found INT DEFAULT 0,
    PRIMARY KEY (record, agent, holder, kind)) WITHOUT ROWID;
CREATE TABLE seen (ref TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE placed (agent TEXT, owner TEXT, name TEXT, rank INT, at REAL, ref TEXT, lane TEXT, state TEXT, digest BLOB,
    collection TEXT, notes TEXT, body BLOB);
CREATE TABLE messages (session TEXT, at REAL, id TEXT, body BLOB, PRIMARY KEY (session, at, id)) WITHOUT ROWID;
CREATE UNIQUE INDEX messages_of ON messages (session, id);
CREATE TABLE talks (agent TEXT, session TEXT, PRIMARY KEY (agent, session)) WITHOUT ROWID;
CREATE INDEX talks_of ON talks (session);
