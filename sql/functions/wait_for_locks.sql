-- Sets how long the later statements of the transaction wait for a lock: here, and on the servers
-- of the tables.
create or replace procedure prescient.wait_for_locks(most text)
language plpgsql
as $$
begin
    perform set_config('lock_timeout', most, true);
    perform set_config('lock_timeout', most, true) from prescient.setting;
end
$$;
