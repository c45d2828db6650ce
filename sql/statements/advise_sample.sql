-- Returns when the newest finished rows of history were found finished. It reads at most $4 rows of
-- each of the jobs $2 (null: all jobs), newest first. It also returns how many rows ended in the
-- last $1 microseconds, at most $5.
-- All ages are seconds after the first slot of the row. open: the last check that found it not
-- finished; null: no check did. finished: when a check found it finished, or its owner ended it;
-- null: neither. found_nothing: how many checks asked for another one. waited: the time from its
-- enqueue to its first slot.
-- $3 is the payload field of each job that divides its rows into classes; '': no classes.
-- Called by internal/advise.read.
with read as materialized (
    select
        h.job_exec, h.id, h.finished_at, h.first_check_at, h.slot, h.lateness, h.check_count, h.enqueued_at, h.outcome,
        case when $2::text[] is null or k.job_exec is not null then h.journal end as journal,
        case
            when jsonb_typeof(h.payload -> k.field) in ('string', 'number', 'boolean') and octet_length(h.payload ->> k.field) <= 200 then h.payload ->> k.field
        end as class
    from prescient.future_job_history h
    left join (
        select g.job_exec, nullif(g.field, '') as field
        from unnest($2::text[], $3::text[]) as g (job_exec, field)
    ) as k on k.job_exec = h.job_exec
    where h.finished_at >= now() - $1::double precision * interval '1 microsecond'
    limit $5
), newest as (
    select r.*, row_number() over (partition by r.job_exec order by r.finished_at desc, r.id desc) as nth
    from read r
    where $2::text[] is null or r.job_exec = any ($2::text[])
), known as (
    select
        n.*,
        -- A check that came later than the next slot says how it was then.
        n.slot + floor(extract(epoch from n.lateness) / extract(epoch from s.width)) * s.width as ended,
        (
            select max(to_timestamp(c.value [1]) + floor(c.value [3] / 1000.0 / extract(epoch from s.width)) * s.width)
            from unnest(string_to_array(n.journal, chr(10))) as t (line)
            cross join lateral (select prescient.journal_check(t.line) as value) as c
        ) as looked,
        (
            select to_timestamp((e.entry ->> 'at')::bigint / 1000.0)
            from (select prescient.journal_value((string_to_array(n.journal, chr(10)))[cardinality(string_to_array(n.journal, chr(10)))]) as entry) as e
            where n.outcome = 'cancelled'
        ) as cancelled
    from newest n
    cross join prescient.setting s
    where n.nth <= $4
)
select
    k.job_exec,
    coalesce(k.class, '') as class,
    extract(epoch from case when k.outcome in ('max_checks', 'horizon', 'past') then k.ended else k.looked end - k.first_check_at)::bigint as open,
    extract(epoch from case
        when k.outcome = 'done' then k.ended
        when k.outcome = 'cancelled' then greatest(least(k.cancelled, k.slot), k.looked)
    end - k.first_check_at)::bigint as finished,
    extract(epoch from k.first_check_at - k.enqueued_at)::bigint as waited,
    k.check_count,
    k.check_count - (k.outcome = 'done')::integer as found_nothing,
    (select count(*) from read) as read
from known k
order by k.job_exec, k.nth
