-- A vector has as many bits as its model has dimensions, which are part of the stored name: `use-multilingual-3:512`. (Its
-- foreign key ensures that its observation exists.)
SELECT
    a.agent_id,
    format('o%s-%s', e.scope_id, e.seq) AS key,
    format('%s bits of the model %s', length(e.bits), e.model) AS detail
FROM memory.observation_vectors e
JOIN memory.agents a USING (agent_key)
WHERE right(e.model, length(length(e.bits)::text) + 1) <> format(':%s', length(e.bits))
