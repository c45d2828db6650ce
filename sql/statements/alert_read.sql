-- Lists the findings that were told or are silenced.
-- Called by internal/alert.Read.
select finding, text, since, told_at, silenced_until, coalesce(silenced_by, ''), coalesce(because, ''), stays
from prescient.alert
order by finding
