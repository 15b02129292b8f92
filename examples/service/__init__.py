"""A web service that remembers: FastAPI, one engine, its own Alembic history. Start with README.md."""
