-- The rows of a spool (SQLite) by agent and scope, in the order in which a scope gets them; one row per record and scope.
--
-- "of" is the record whose row it is. The same text in the same state is one row: the first of what is in a text or only
-- found, the last of what waits, since between "tea" and "tea" somebody may have said "coffee", and the last word counts.
CREATE TABLE rows AS
SELECT agent, owner, name, rank, at, ref, lane, state, collection, notes, body,
       first_value(ref) OVER (PARTITION BY agent, owner, name, rank, coalesce(digest, ref)
                              ORDER BY CASE WHEN state = 'pending' THEN -at ELSE at END,
                                       CASE WHEN state = 'pending' THEN NULL ELSE ref END, ref DESC) AS of
FROM placed ORDER BY agent, owner, name, rank, at, ref;
DROP TABLE placed;
CREATE INDEX rows_of ON rows (agent, owner, name);
CREATE INDEX rows_by_ref ON rows (ref);
-- What another document stands for is accounted for by its id, too.
INSERT INTO refusals
SELECT min(collection), substr(ref, instr(ref, ':') + 1), NULL, NULL, NULL, 'merged', 'duplicate_text'
FROM rows GROUP BY ref HAVING sum(ref <> of) = count(*);
CREATE INDEX refusals_of ON refusals (id) WHERE reason = 'duplicate_text';
INSERT INTO refusals
SELECT collection, substr(ref, instr(ref, ':') + 1), NULL, NULL, NULL, 'merged', 'duplicate_scope'
FROM (
    SELECT ref, substr(ref, 1, instr(ref, ':') - 1) AS collection,
           row_number() OVER (
               PARTITION BY substr(ref, 1, instr(ref, ':') - 1), agent, owner ORDER BY written DESC, ref DESC
           ) AS n
    FROM blobs
) WHERE n > 1;
