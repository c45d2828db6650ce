-- Returns the months without a partition of history, from this month to the second one after it. It
-- also returns relations of another kind that have the name of such a partition, and the oldest row
-- in the default partition.
-- Called by cmd/internal/doctor.months.
with month as (
    select
        to_char(at, 'YYYY-MM') as name,
        to_regclass('prescient.future_job_history_' || to_char(at, 'YYYYMM')) as relation
    from (
        select (date_trunc('month', clock_timestamp() at time zone 'UTC') + ahead * interval '1 month') as at
        from generate_series(0, 2) as ahead
    ) as months
), missing as (
    select m.*
    from month m
    where not exists (
        select
        from pg_inherits i
        where i.inhparent = 'prescient.future_job_history'::regclass and i.inhrelid = m.relation
    )
)
select
    array(select m.name from missing m where m.relation is null order by m.name) as missing,
    array(select m.relation::text from missing m where m.relation is not null order by m.name) as taken,
    (select min(finished_at) from prescient.future_job_history_rest) as rest
