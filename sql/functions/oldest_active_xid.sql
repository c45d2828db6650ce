-- Returns a transaction number below which all transactions have ended. The next statement sees
-- what they have written.
-- On Citus the number is the coordinator's, which all clients share and which stays when the schema
-- moves. A transaction that has written on several servers ends there while it may still be
-- prepared on the schema's server. As long as one of this database is prepared, the function knows
-- nothing. It asks by functions alone: Citus would read a catalog on the coordinator.
-- prepared: false ignores prepared transactions, for a caller that knows that they do not matter, such
-- as for an event that could be read before.
create or replace function prescient.oldest_active_xid(prepared boolean default true)
returns xid8
language plpgsql
as $$
declare
    ended xid8 := pg_snapshot_xmin(pg_current_snapshot());
begin
    if prepared and exists (
        select
        from prescient.setting
        where exists (
            select
            from pg_prepared_xact() as p join pg_stat_get_activity(pg_backend_pid()) as own on own.datid = p.dbid
            where starts_with(p.gid, 'citus_')
        )
    ) then
        return '0';
    end if;
    return ended;
end
$$;
