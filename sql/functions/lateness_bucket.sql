-- Returns the bucket of a lateness in microseconds. A check of bucket n began at most 100 ms * 2 ^
-- (n / 4) after its slot.
create or replace function prescient.lateness_bucket(lateness bigint)
returns smallint
language sql
immutable
parallel safe
as $$
    select case
        when lateness is null then -1
        when lateness <= 100000 then 0
        else ceil(round((4 * ln(lateness / 100000::double precision) / ln(2::double precision))::numeric, 6))
    end::smallint
$$;
