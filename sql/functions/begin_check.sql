-- Begins the transaction of a check of one row and locks the row. It returns 'locked' and the
-- number of the transaction, 'busy' if another transaction has locked the row, or 'gone'.
-- A patient check waits for the row, as long as lock_timeout says: it holds no other lock yet.
-- session is the name by which terminate_sessions finds the session. actor is the cause of what the check does, unless
-- the check names another one.
-- The function sets the name and the timeouts itself, by assignment: each further statement costs a
-- check 1 to 3 %. It takes one argument for the same reason; see record_row.
create or replace function prescient.begin_check(c prescient.row_check)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
set row_security = off
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    settings text;
begin
    settings := set_config('application_name', c.session, true) || set_config('lock_timeout', c.lock_timeout, true)
        || set_config('idle_in_transaction_session_timeout', c.idle_timeout, true)
        || set_config('prescient_caller.actor', c.actor, true);
    if c.patient then
        perform from prescient.future_job f where f.next_check_at = c.slot and f.job = c.job and f.id = c.id for update;
    else
        perform from prescient.future_job f where f.next_check_at = c.slot and f.job = c.job and f.id = c.id for update skip locked;
    end if;
    if found then
        return 'locked ' || pg_current_xact_id()::xid::text;
    elsif exists (select from prescient.future_job f where f.next_check_at = c.slot and f.job = c.job and f.id = c.id) then
        return 'busy';
    end if;
    return 'gone';
end
$$;
