-- Locks a slot: alone to open, close or scan it, and shared with other claims to claim. Each caller
-- reads after that, in a statement of its own, and so sees what the others have committed. Waiting
-- callers have their turn in order.
-- It is no lock of a row, for three reasons. That would give the transaction its number, which
-- open_slot may take only after it has looked at the clock. It would need a table of its own, since
-- slot_run has no row yet, and one that only runners may lock. And shared locks of a row do not
-- queue behind a caller that wants it alone. So any login that can connect may take this lock. It
-- then delays the slot, and can make no run lose or double anything. docs/roles.md says how to find
-- and end such a session.
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
