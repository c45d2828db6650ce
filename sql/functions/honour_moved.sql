-- Honours the requests of rows that were moved from a slot (at) to later ones (slots).
-- Called by move_rows and move_rows_alike, if they have moved a row with a request.
create or replace function prescient.honour_moved(
    at      timestamptz,
    numbers bigint[],
    ids     bigint[],
    slots   timestamptz[],
    clock   timestamptz
)
returns void
language plpgsql
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
    moved record;
begin
    for moved in
        select f.job, f.entity_name, f.entity_key, f.item_key, f.request
        from prescient.future_job f
        where f.next_check_at = any (slots)
            and f.job = any (numbers)
            and f.id = any (ids)
            and (f.request).check_at is not null
        order by f.id
    loop
        perform prescient.honour(moved.job, moved.entity_name, moved.entity_key, moved.item_key, at, moved.request, clock, null);
    end loop;
end
$$;
