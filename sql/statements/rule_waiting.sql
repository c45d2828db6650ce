-- Returns the checks of the rule $1 that wait for the keys $3 of the entity_name $2, each with its slot. Anonymous ones are
-- left out.
-- Called by jobs/rule.page.handOn.
select f.entity_key, f.next_check_at
from unnest($3::text[]) as u (entity_key)
cross join lateral (
    select f.entity_key, f.next_check_at
    from prescient.future_job f
    where f.entity_name = $2
        and f.entity_key = u.entity_key
        and f.job = (select prescient.find_job($1))
        and f.item_key = ''
    limit 1
) as f
