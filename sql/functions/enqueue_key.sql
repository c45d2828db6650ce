-- enqueue for an entity_key that is a number or a uuid, such as an id: its text is the key. Any other type is an error,
-- because its text may depend on the session.
create or replace function prescient.enqueue(
    job_exec    text,
    entity_name text,
    entity_key  anynonarray,
    item_key    text default '',
    check_at    timestamptz default null,
    group_key   text default null,
    on_conflict text default 'keep',
    max_wait    interval default null,
    within      interval default null,
    unless_ended_within interval default null,
    payload     jsonb default null,
    out id      bigint,
    out slot    timestamptz,
    out action  text
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if pg_typeof(entity_key) not in ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype, 'uuid'::regtype) then
        raise exception 'entity_key is of type %, and must be text', pg_typeof(entity_key)
            using errcode = 'datatype_mismatch', hint = 'Give its text, such as entity_key => id::text.';
    end if;
    select e.id, e.slot, e.action
    into enqueue.id, enqueue.slot, enqueue.action
    from prescient.enqueue(
        job_exec => enqueue.job_exec, entity_name => enqueue.entity_name, entity_key => enqueue.entity_key::text,
        item_key => enqueue.item_key, check_at => enqueue.check_at,
        group_key => enqueue.group_key, on_conflict => enqueue.on_conflict, max_wait => enqueue.max_wait,
        within => enqueue.within, unless_ended_within => enqueue.unless_ended_within, payload => enqueue.payload
    ) as e;
end
$$;
revoke all on function prescient.enqueue(text, text, anynonarray, text, timestamptz, text, text, interval, interval, interval, jsonb) from public;
