-- For statements of the transaction that come after it: where they read slots, the planner is to go through the slot index in
-- its order; see SlotIndexOnly. A setting is made by a query of a table where that table is, which on Citus is another server.
-- A procedure, which returns no rows.
create or replace procedure prescient.slot_index_only()
language plpgsql
as $$
begin
    perform
        set_config('enable_bitmapscan', 'off', true),
        set_config('enable_seqscan', 'off', true),
        set_config('enable_sort', 'off', true),
        set_config('max_parallel_workers_per_gather', '0', true),
        set_config('jit', 'off', true)
    from prescient.setting;
end
$$;
