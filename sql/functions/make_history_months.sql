-- This month and the next two; called by migrate and by every run, and nearly free when all are there.
create or replace function prescient.make_history_months()
returns setof text
language sql
as $$
    select made
    from generate_series(0, 2) as ahead,
        prescient.make_history_month(
            (date_trunc('month', clock_timestamp() at time zone 'UTC') + ahead * interval '1 month') at time zone 'UTC'
        ) as made
    where made is not null
$$;
