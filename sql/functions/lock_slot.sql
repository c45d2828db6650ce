-- Locks a slot: alone to open, close or scan it, and shared with other claims to claim. Each caller
-- reads after that, in a statement of its own, and so sees what the others have committed. Waiting
-- callers have their turn in order.
create or replace function prescient.lock_slot(at timestamptz, alone boolean)
returns void
language plpgsql
as $$
begin
    -- set_width and records take their locks in this order too. Reading no row is enough to lock the table. LOCK TABLE
    -- would lock it on all servers of Citus, and wait for one that is down.
    perform from prescient.future_job where false;
    if alone then
        perform pg_advisory_xact_lock(hashtextextended('prescient.slot ' || extract(epoch from at), 0));
    else
        perform pg_advisory_xact_lock_shared(hashtextextended('prescient.slot ' || extract(epoch from at), 0));
    end if;
end
$$;
