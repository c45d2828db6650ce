-- Notes when columns of rows of a rule have changed, from which their clock counts, or when rows were paused. noted_at: when
-- the transaction of the write began. Null forgets the rows, which are deleted. Without keys, all rows are.
-- paused: whether the rows are paused from then on. Null: they are as before, and columns have changed. changed: columns have
-- changed, too.
-- ends: the condition could not be computed before. Rows are not paused now, which ends a pause that has begun.
-- A row that was paused when the rule was applied has no begin: it is paused since then. A pause of an earlier version of the
-- rule has ended then.
-- Called by the triggers of rules.
create or replace function prescient.rule_mark(
    job_exec    text,
    entity_keys text[],
    noted_at    timestamptz,
    changed     boolean default true,
    paused      boolean default null,
    ends        boolean default false
)
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
    number  bigint := prescient.find_rule(job_exec);
    applied timestamptz; -- the rule with its condition of pauses
    key     text;
begin
    if number is null then
        return;
    elsif rule_mark.noted_at is null and entity_keys is null then
        delete from prescient.rule_changed c
        where c.job = number;
        return;
    elsif rule_mark.noted_at is null then
        delete from prescient.rule_changed c
        where c.job = number and c.entity_key = any (entity_keys);
        return;
    end if;
    if rule_mark.ends then
        update prescient.rule_changed c
        set pauses = c.pauses || greatest(rule_mark.noted_at, c.pauses[cardinality(c.pauses)])
        where c.job = number and c.entity_key = any (entity_keys) and cardinality(c.pauses) % 2 = 1;
        if not rule_mark.changed then
            return;
        end if;
        paused := null;
    end if;
    -- Each insert takes the keys in their order, so that two calls never deadlock.
    if rule_mark.paused is null then
        insert into prescient.rule_changed as c (job, entity_key, changed_at, pauses)
        select distinct number, k.entity_key collate "C", case when rule_mark.changed then rule_mark.noted_at end, '{}'::timestamptz[]
        from unnest(entity_keys) as k (entity_key)
        where octet_length(k.entity_key) between 1 and 500
        order by 2
        on conflict (job, entity_key) do update
        set changed_at = greatest(c.changed_at, excluded.changed_at);
        return;
    end if;
    -- A transaction whose snapshot is from before the rule had pauses began before that, too.
    applied := coalesce(
        (select (r.definition -> 'facts' ->> 'paused_from')::timestamptz from prescient.rule r where r.name = rule_mark.job_exec),
        rule_mark.noted_at
    );
    -- One by one, because Citus takes no variables in the on conflict of an insert of many rows.
    for key in
        select distinct k.entity_key collate "C"
        from unnest(entity_keys) as k (entity_key)
        where octet_length(k.entity_key) between 1 and 500
        order by 1
    loop
        insert into prescient.rule_changed as c (job, entity_key, changed_at, pauses)
        values (
            number, key, case when rule_mark.changed then rule_mark.noted_at end,
            case when rule_mark.paused then array[rule_mark.noted_at] else array[applied, greatest(applied, rule_mark.noted_at)] end
        )
        on conflict (job, entity_key) do update
        set changed_at = greatest(c.changed_at, excluded.changed_at),
            pauses = c.pauses || case
                when rule_mark.paused and cardinality(c.pauses) % 2 = 0 then array[greatest(rule_mark.noted_at, c.pauses[cardinality(c.pauses)])]
                when rule_mark.paused and c.pauses[cardinality(c.pauses)] < applied then array[applied, greatest(applied, rule_mark.noted_at)]
                when rule_mark.paused then '{}'
                when cardinality(c.pauses) % 2 = 0 then array[
                    greatest(applied, c.pauses[cardinality(c.pauses)]),
                    greatest(applied, rule_mark.noted_at, c.pauses[cardinality(c.pauses)])
                ]
                else array[greatest(rule_mark.noted_at, c.pauses[cardinality(c.pauses)])]
            end;
    end loop;
end
$$;
revoke all on function prescient.rule_mark(text, text[], timestamptz, boolean, boolean, boolean) from public;
