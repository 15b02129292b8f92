-- memory.text_statistics: not a function. Keeps the planner's statistics free of remembered text: ANALYZE would copy the
-- commonest values of a column into pg_statistic, where they outlive their rows.
DO $$
DECLARE
    v_column record;
BEGIN
    FOR v_column IN
        SELECT * FROM (VALUES
            ('messages', 'content'), ('messages', 'speaker'), ('messages', 'search_extra'), ('messages', 'search'),
            ('observations', 'content'), ('observations', 'speaker'), ('observations', 'tags'),
            ('observations', 'metadata'), ('observations', 'search_extra'), ('observations', 'search'),
            ('observations', 'terms'), ('observations', 'cues'), ('observations', 'fact_key'), ('observation_episodes', 'topics'),
            ('consolidations', 'content'), ('consolidations', 'contradictions'), ('scopes', 'display_name'),
            ('scopes', 'speakers'), ('prompts', 'body'), ('runs', 'answer'), ('runs', 'held'), ('runs', 'seen'),
            ('events', 'reason'), ('holds', 'reason'), ('links', 'label')
        ) AS c (table_name, column_name)
    LOOP
        EXECUTE format(
            'ALTER TABLE memory.%I ALTER COLUMN %I SET STATISTICS 0', v_column.table_name, v_column.column_name
        );
    END LOOP;
    ALTER INDEX memory.observations_search_idx ALTER COLUMN 1 SET STATISTICS 0;  -- hashes of words, by which words are guessed
    ALTER INDEX memory.messages_search_idx ALTER COLUMN 1 SET STATISTICS 0;
END
$$;
