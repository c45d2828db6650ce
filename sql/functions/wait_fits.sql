-- Tells whether a max_wait is from 0 to 1000 years. Its months and days are bounded each, because large ones may cancel
-- out: a run adds them to the first slot of a row one after the other, and must not leave the range of instants.
-- Called by enqueue, enqueue_slowly, enqueue_many, push_back, push_back_row and require_given.
create or replace function prescient.wait_fits(max_wait interval)
returns boolean
language sql
immutable
parallel safe
as $$
    select max_wait between interval '0' and interval '1000 years'
        and date_part('year', max_wait) between -1000 and 1000
        and date_part('day', max_wait) between -366000 and 366000
$$;
