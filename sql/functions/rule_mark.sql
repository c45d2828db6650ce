-- Notes when columns of rows of a rule have changed, from which their clock counts. changed_at: null forgets the rows, which
-- are deleted.
-- Called by the triggers of rules.
create or replace function prescient.rule_mark(job_exec text, entity_keys text[], changed_at timestamptz)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set row_security = off
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    number bigint := prescient.find_rule(job_exec);
begin
    if number is null then
        return;
    elsif rule_mark.changed_at is null then
        delete from prescient.rule_changed c
        where c.job = number and c.entity_key = any (entity_keys);
        return;
    end if;
    -- In the order of the keys, so that two calls never deadlock.
    insert into prescient.rule_changed as c (job, entity_key, changed_at)
    select distinct number, k.entity_key collate "C", rule_mark.changed_at
    from unnest(entity_keys) as k (entity_key)
    where octet_length(k.entity_key) between 1 and 500
    order by 2
    on conflict (job, entity_key) do update
    set changed_at = greatest(c.changed_at, excluded.changed_at);
end
$$;
revoke all on function prescient.rule_mark(text, text[], timestamptz) from public;
