-- Creates the partitions of this month and the next two. migrate and every run call it. It is
-- nearly free if all of them exist.
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
