-- Locks and reads the due rows of a group in slot $1: rows of the jobs $2 with group_key $3, and
-- rows without a group_key of the entity ($4, $5) that stands for the group. It returns at most $7
-- rows, without those of the ids $8.
-- An anonymous row without a group_key is found by its id ($6) alone. Rows of paused jobs are left
-- out.
-- Called by slots/internal/txn.Checker.readGroup.
select
    {{checked}}
from prescient.future_job
where next_check_at = $1
    and job = any ($2::bigint[])
    and job <> all (array(select j.job from prescient.job j where j.paused_at is not null))
    and id = any (array(
        select f.id
        from prescient.future_job f
        where f.group_key = $3 and f.next_check_at = $1
        union
        select f.id
        from prescient.future_job f
        where f.entity_name = $4 and f.entity_key = $5 and f.item_key is not null and f.group_key is null and f.next_check_at = $1
        union
        select $6::bigint
    ))
    and id <> all ($8::bigint[])
order by id
limit $7
for update
