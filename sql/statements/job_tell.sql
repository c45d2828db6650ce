-- Returns the name of a job whose rows catch-up leaves, if no catch-up has named it on day $2 (UTC), and
-- records that this one does.
-- Called by cmd/internal/runcmd.newsOfCatchUp.
update prescient.job
set told_on = $2
where name = $1
    and told_on is distinct from $2::date
returning name
