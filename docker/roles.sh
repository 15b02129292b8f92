#!/bin/sh
# What the image of Postgres runs on a new volume, as POSTGRES_USER: the login of the application.
# It owns nothing: memory_app, which `memory-sql db roles` fills, reads and writes behind the walls (docs/security.md).
set -eu
psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --set=password="$MEMORY_PASSWORD" \
    --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" <<'SQL'
CREATE ROLE memory_app NOLOGIN NOINHERIT;
CREATE ROLE memory_service LOGIN PASSWORD :'password' IN ROLE memory_app;
SQL
