-- The jobs that checks were ever asked for, up to $1 by name, or job $2 alone.
select name, paused_at, coalesce(paused_by, '') as paused_by, registered_at, (extract(epoch from sla) * 1000000)::bigint as sla
from prescient.job
where $2::text is null or name = $2
order by name
limit $1
