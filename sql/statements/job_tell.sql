-- Returns those of the jobs $1, whose rows catch-up leaves, that no catch-up has named on day $2 (UTC), and
-- records that this one does. It leaves a job that another session has locked, perhaps to pause it.
-- Called by cmd/internal/runcmd.newsOfCatchUp.
update prescient.job j
set told_on = $2
from (
    select o.job
    from prescient.job o
    where o.name = any ($1::text[])
        and o.told_on is distinct from $2::date
    order by o.job
    for update skip locked
) as fresh
where j.job = fresh.job
returning j.name
