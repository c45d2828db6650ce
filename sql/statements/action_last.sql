-- The last action of what ($1) that target ($2) was asked for; 0: none was.
select coalesce(max(id), 0) as last
from prescient.action
where what = $1 and target = $2
