-- Lets one at a time learn, and says of which of the jobs $1 there is no curve from after $2.
select g.name
from (select pg_try_advisory_xact_lock(hashtextextended('prescient.learned_curve', 0)) as mine offset 0) as l
cross join unnest($1::text[]) as g (name)
where l.mine
    and not exists (
        select
        from prescient.learned_curve c
        where c.job_exec = g.name and c.computed_at > $2
    )
