"""The memory that mem0 keeps in a table of Postgres (its pgvector store).

    naming     whose a memory is here, by mem0's ids
    reading    a payload → what it means
    origin     reads the table once, in pages, into a spool; then the spool says what is stored, by agent and user
    spool      what has been read, on disk
    plan       the spool → `drafts`

A reference is `mem0:` and the id of the memory there.
"""
