-- Returns whether the functions of the schema read its own tables, by the name of one of them ($1). After
-- the schema was renamed, they name tables of its old name.
-- Called by sql.functionsState.
select exists (
    select
    from pg_catalog.pg_proc p
    where p.oid = to_regprocedure('prescient.settings()') and strpos(p.prosrc, $1) > 0
)
