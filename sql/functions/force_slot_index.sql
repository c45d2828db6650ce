-- Makes the planner read slots through the slot index, in its order, in the later statements of the
-- transaction; see SlotIndexOnly. A query of a table makes a setting on the server of that table,
-- which on Citus is another one. It is a procedure, because it returns no rows.
create or replace procedure prescient.force_slot_index()
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
