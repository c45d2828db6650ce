-- Returns what the rule $1 has fired for starts of the clock from $2 on, and before $3, if that is not null.
-- Called by internal/backtest.test.readRecord.
select entity_key, since, coalesce(start, '') as start, step, times, fired_at
from prescient.rule_fired
where job = prescient.find_job($1) and since >= $2 and ($3::timestamptz is null or since < $3)
