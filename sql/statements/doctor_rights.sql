-- Returns what the role of the session may do in schema $1: read, run (which needs the functions
-- $2), or nothing. It also returns the schemas of its search_path in which every role may create
-- functions.
-- Called by cmd/internal/doctor.Config.may.
select
    current_user as name,
    r.rolsuper as super,
    case when has_schema_privilege($1, 'usage') then has_table_privilege('prescient.future_job', 'select') else false end as reads,
    case when has_schema_privilege($1, 'usage') then
        has_table_privilege('prescient.slot_claim', 'insert')
        and (
            select bool_and(coalesce(has_function_privilege(to_regprocedure(format('%I.%s', $1, routine)), 'execute'), false))
            from unnest($2::text[]) as routine
        )
    else false end as runs,
    array(select s from unnest(current_schemas(false)) as s where has_schema_privilege('public', s, 'create')) as open
from pg_roles r
where r.rolname = current_user
