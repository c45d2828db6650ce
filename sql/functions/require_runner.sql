-- Fails if the caller has set prescient_caller.clock and is no runner: an application could fill any number of past slots,
-- and each would keep a catch-up busy. A runner may, to replay what has happened. The caller is that of
-- require_rights.
-- Called by enqueue_slowly, enqueue_many, push_back and reschedule, if there is a clock.
create or replace function prescient.require_runner(clock timestamptz)
returns void
language plpgsql
stable
as $$
declare
    caller text := coalesce(nullif(current_setting('role'), 'none'), session_user);
begin
    if clock is not null and not has_table_privilege(caller, 'prescient.future_job', 'insert') then
        raise exception 'only a runner may set prescient_caller.clock, and role % is none', quote_ident(caller)
            using errcode = 'insufficient_privilege',
                hint = 'Reset it. To replay the past, use a role that is a member of prescient_runner.';
    end if;
end
$$;
revoke all on function prescient.require_runner(timestamptz) from public;
