-- Whether a schema name needs no quotes, whether the schema exists, the encoding of the database, and the server's version.
select
    not exists (select from pg_get_keywords() where word = $1 and catcode <> 'U'),
    exists (select from pg_catalog.pg_namespace where nspname = $1),
    current_setting('server_encoding'),
    current_setting('server_version_num')::integer
