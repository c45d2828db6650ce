-- Counts the blocks of the two samples: the history that ended from $1 on, and the waiting rows.
-- Called by internal/forecast.reader.readHistories.
select
    coalesce((
        select sum(pg_catalog.pg_relation_size(i.inhrelid))
        from pg_catalog.pg_inherits i
        join pg_catalog.pg_class c on c.oid = i.inhrelid
        where i.inhparent = 'prescient.future_job_history'::regclass
            and (c.relname !~ '_[0-9]{6}$' or right(c.relname, 6) >= to_char($1::timestamptz at time zone 'UTC', 'YYYYMM'))
    ), 0)::bigint / 8192 as history,
    pg_catalog.pg_relation_size('prescient.future_job'::regclass) / 8192 as waiting
