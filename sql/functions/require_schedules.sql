-- Fails unless the caller may change schedules. The rows of job "schedule" say what schedules
-- publish next, so a role that may not write the table schedule may not write them either.
-- Called by the functions for applications, which run with the owner's rights: the caller is the
-- role of the session.
create or replace function prescient.require_schedules()
returns void
language plpgsql
stable
as $$
declare
    caller text := coalesce(nullif(current_setting('role'), 'none'), session_user);
begin
    if not has_table_privilege(caller, 'prescient.schedule', 'insert') then
        raise exception 'job "schedule" belongs to recurring schedules, which role % may not change', quote_ident(caller)
            using errcode = 'insufficient_privilege',
                hint = 'Ask for a check of a job with another name. To change schedules, use a role that is a member of prescient_runner.';
    end if;
end
$$;
revoke all on function prescient.require_schedules() from public;
