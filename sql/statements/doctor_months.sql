-- The months from this one to the next but one that history has no partition for, and the oldest row that has gone to the
-- default partition.
select
    array(
        select to_char(month, 'YYYY-MM')
        from (
            select (date_trunc('month', clock_timestamp() at time zone 'UTC') + ahead * interval '1 month') as month
            from generate_series(0, 2) as ahead
        ) as months
        where to_regclass('prescient.future_job_history_' || to_char(month, 'YYYYMM')) is null
        order by month
    ) as missing,
    (select min(finished_at) from prescient.future_job_history_rest) as rest
