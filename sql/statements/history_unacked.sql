-- Counts the rows that history_ack would acknowledge with the same parameters. The digest tells these rows from as many
-- others. newest is when the last of them ended.
-- Called by jobs/admin.Client.PreviewAck.
select count(*) as found, max(h.finished_at) as newest, coalesce(sum(hashint8extended(h.id, 0)), 0)::text as digest
from prescient.future_job_history h
where h.outcome = 'failed'
    and h.ack is null
    and ($1::text is null or h.job_exec = $1)
    and ($2::text is null or h.entity_name = $2)
    and ($3::text is null or h.entity_key = $3)
    and h.finished_at >= $4
    and h.finished_at < $5
    and ($6::text is null or h.item_key = $6)
    and ($7::bigint is null or h.id = $7)
