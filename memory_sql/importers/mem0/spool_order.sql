-- The rows of a spool (SQLite) by agent and user, oldest first.
--
-- "of" is the memory whose row it is. The same text of the same user is one row: the last, since the last word counts.
CREATE TABLE rows AS
SELECT agent, owner, ref, conversation, body,
       first_value(ref) OVER (PARTITION BY agent, owner, coalesce(digest, ref) ORDER BY at DESC, ref DESC) AS of
FROM placed ORDER BY agent, owner, at, ref;
DROP TABLE placed;
CREATE INDEX rows_of ON rows (agent, owner);
INSERT INTO refusals
SELECT 'mem0', substr(ref, instr(ref, ':') + 1), NULL, NULL, NULL, 'merged', 'duplicate_text' FROM rows WHERE ref <> of;
CREATE INDEX refusals_of ON refusals (id) WHERE reason = 'duplicate_text';
