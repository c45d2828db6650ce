-- Whether a schema name needs no quotes, and whether the schema exists.
select
    quote_ident($1) = $1,
    exists (select from pg_catalog.pg_namespace where nspname = $1)
