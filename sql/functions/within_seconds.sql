-- Returns the seconds of a window; null: there is none.
create or replace function prescient.within_seconds(within interval)
returns integer
language sql
immutable
parallel safe
as $$
    select case when within is not null then nullif(greatest(-1, least(2147483647, floor(date_part('epoch', within))))::integer, 0) end
$$;
