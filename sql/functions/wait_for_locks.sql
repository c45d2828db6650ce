-- Sets how long the statements that come after it wait for a lock: here, and where the tables are.
create or replace procedure prescient.wait_for_locks(most text)
language plpgsql
as $$
begin
    perform set_config('lock_timeout', most, true);
    perform set_config('lock_timeout', most, true) from prescient.setting;
end
$$;
