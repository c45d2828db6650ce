-- Closes those of a runner's shards that have no rows left but those of paused jobs: the lease row goes, its counts
-- go to the ledger. The probe is a subquery of its own: as a not exists it could become a hash of the whole table. It
-- begins after the ids ($4) that are known to be gone, whose dead index entries it would step over one by one.
with gone as (
    delete from prescient.slot_lease l
    using unnest($2::smallint[], $3::bigint[], $4::bigint[]) as mine (shard, token, gone)
    where l.slot = $1
        and l.shard = mine.shard
        and l.token = mine.token
        and (
            select true
            from prescient.future_job f
            where f.next_check_at = $1
                and f.shard = mine.shard
                and f.id > mine.gone
                and f.job_exec <> all (array(select job_exec from prescient.paused_job))
            limit 1
        ) is null
    returning l.shard, l.finished, l.rescheduled, l.failed
), tallied as (
    delete from prescient.slot_tally t
    using gone
    where t.slot = $1 and t.shard = gone.shard
    returning t.finished, t.rescheduled, t.failed
), counted as (
    update prescient.slot_run r
    set checked = r.checked + s.finished + s.rescheduled + s.failed,
        finished = r.finished + s.finished,
        rescheduled = r.rescheduled + s.rescheduled,
        failed = r.failed + s.failed
    from (
        select
            sum(finished) as finished,
            sum(rescheduled) as rescheduled,
            sum(failed) as failed
        from (
            select finished, rescheduled, failed
            from gone
            union all
            select finished, rescheduled, failed
            from tallied
        ) as all_of_it
    ) as s
    where r.slot = $1 and s.finished is not null
)
select shard
from gone
