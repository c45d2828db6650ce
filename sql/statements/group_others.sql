-- Which rows wait for others of their group: of rows ($1: ids) with their group_keys ($2) and entities ($3, $4), those in whose
-- group a row of a job that is none of $5 waits.
select g.id
from unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) as g (id, group_key, entity_name, entity_key)
where case
    when g.group_key is not null then exists (
        select
        from prescient.future_job f
        where f.group_key = g.group_key and f.job <> all ($5::bigint[])
    )
    else exists (
        select
        from prescient.future_job f
        where f.entity_name = g.entity_name and f.entity_key = g.entity_key and f.item_key is not null
            and f.group_key is null and f.job <> all ($5::bigint[])
    )
end
