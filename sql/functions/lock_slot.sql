-- Whoever opens, closes or looks into a slot does so alone, and whoever claims does so beside others who claim. Each looks
-- after that, by a statement of its own, and so sees what the others have committed. Those who wait have their turn.
create or replace function prescient.lock_slot(at timestamptz, alone boolean)
returns void
language plpgsql
as $$
begin
    -- In the order in which set_width and records take their locks, too. To read nothing locks the table; lock table would do so
    -- on all servers of Citus, and wait for one that is down.
    perform from prescient.future_job where false;
    if alone then
        perform pg_advisory_xact_lock(hashtextextended('prescient.slot ' || extract(epoch from at), 0));
    else
        perform pg_advisory_xact_lock_shared(hashtextextended('prescient.slot ' || extract(epoch from at), 0));
    end if;
end
$$;
