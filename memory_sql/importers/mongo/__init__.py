"""The memory of the legacy system, which is stored in MongoDB.

    sources/           dumps, exports, a live server → documents with their places
    reading, texts     a document → what it means, and what is unusual about it (`anomalies`)
    routing            a record → its scopes, lanes and states
    survey             reads a source once into a spool; `accounts` then has every count of a dry run
    spool, talk        what has been read, on disk, by agent and scope
    plan               the spool → `drafts`, agent by agent, in the order in which they are stored
    scoping, said      texts, settings and prompts of a scope; the sentences of its text as rows

Usage:

    with closing(Spool(options)) as spool:
        await Survey(source, spool, options, accounts := Accounts()).run()
        plan = Plan(spool, options, now)
        for agent in plan.agents():                                    # one transaction each
            for scope in plan.scopes(agent.agent_id):
                for row in plan.rows(scope):

Nothing here knows our database. A legacy reference identifies the origin of a row: the document's collection and id,
`memory_sessions:64b0…`, and for a sentence a number as well, `memory_user:64b0…#3`. It is unique in its scope.
"""
