-- Returns how the rows of the keys $3 ended last for the rule $1 of entity $2, without those that wait: what their last
-- check found, and the steps that were left out. Rows that ended before the rule was applied first do not count.
-- Called by internal/backtest.test.resolve.
select k.key, coalesce(h.payload ->> 'found', '') as found,
    array(select jsonb_array_elements_text(case when jsonb_typeof(h.payload -> 'left_out') = 'array' then h.payload -> 'left_out' end)) as left_out
from unnest($3::text[]) as k (key)
cross join lateral (
    select e.payload
    from prescient.future_job_history e
    where e.entity_name = $2 and e.entity_key = k.key and e.item_key = '' and e.job_exec = $1
        and e.finished_at >= (select r.created_at from prescient.rule r where r.name = $1)
    order by e.finished_at desc
    limit 1
) as h
where not exists (
    select
    from prescient.future_job w
    where w.entity_name = $2 and w.entity_key = k.key and w.job = prescient.find_job($1) and w.item_key = ''
)
