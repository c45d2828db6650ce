-- Ends the sessions that work under claims which were taken over: nothing of theirs can be committed any more, and a
-- process that was stopped in the middle of a check's transaction would keep its locks. A role may end its own
-- sessions; others end by their idle_in_transaction_session_timeout.
create or replace function prescient.end_sessions(tokens bigint[])
returns void
language plpgsql
as $$
begin
    perform pg_terminate_backend(a.pid)
    from pg_stat_activity a
    where a.application_name = any (select 'prescient claim ' || t from unnest(tokens) as t)
        and a.datname = current_database()
        and a.usename = session_user
        and pg_has_role(a.usesysid, 'usage') -- not where the session has taken another role
        and a.pid <> pg_backend_pid();
end
$$;
