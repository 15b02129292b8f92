-- Takes the vectors back, with what asks for them; the extension stays. They can be computed again from the texts.
DROP FUNCTION IF EXISTS memory.similar(text, text, text, timestamptz, text, real[], integer, bigint[], integer[], boolean);
DROP TABLE IF EXISTS memory.observation_vectors;
