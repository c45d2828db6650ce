-- Reports whether a schema name needs no quotes and whether the schema exists, with the encoding of
-- the database and the version of the server.
-- Called by sql.createSchema.
select
    not exists (select from pg_get_keywords() where word = $1 and catcode <> 'U'),
    exists (select from pg_catalog.pg_namespace where nspname = $1),
    current_setting('server_encoding'),
    current_setting('server_version_num')::integer
