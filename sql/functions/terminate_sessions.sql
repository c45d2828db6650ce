-- Ends the sessions that work under claims which were taken over. They can commit nothing any more,
-- and a stopped process would keep the locks of its check's transaction. A role may end its own
-- sessions; other sessions end by their idle_in_transaction_session_timeout.
create or replace function prescient.terminate_sessions(tokens bigint[])
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
