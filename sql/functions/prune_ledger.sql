-- Forgets finished slots before an instant, the oldest first and at most so many, up to the first one that has rows, of
-- paused jobs too. The ledger has no gaps before the first slot that it keeps. Returns how many it forgot.
-- Called by the statement ledger_prune, for each part of the slots in a transaction of its own.
create or replace function prescient.prune_ledger(before timestamptz, most integer)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set row_security = off
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    first_kept timestamptz := least(before, (select min(f.next_check_at) from prescient.future_job f));
    begins     timestamptz; -- the first slot without a gap after it
    forgotten  bigint;
begin
    first_kept := coalesce(
        (
            select r.slot
            from prescient.slot_run r
            where r.slot < first_kept and r.state = 'done'
            order by r.slot
            offset most
            limit 1
        ),
        first_kept
    );
    begins := prescient.slot_ceil(first_kept, (select s.width from prescient.setting s));
    update prescient.setting s
    set since = begins
    where s.since < begins;
    delete from prescient.slot_run r
    where r.slot < first_kept and r.state = 'done';
    get diagnostics forgotten = row_count;
    return forgotten;
end
$$;
revoke all on function prescient.prune_ledger(timestamptz, integer) from public;
