-- Reports whether a month of history ended before $1, or a finished slot that is not kept is a day older than that, or the
-- oldest event of the outbox is, and every consumer has read it. A slot is kept behind one that waits or is open.
-- Called by internal/retention.Due.
select
    exists (
        select true -- Citus, which reads the catalog by itself, takes no empty list
        from pg_catalog.pg_inherits i
        join pg_catalog.pg_class c on c.oid = i.inhrelid
        where i.inhparent = 'prescient.future_job_history'::regclass
            and c.relname ~ '^future_job_history_[0-9]{6}$'
            and (to_date(right(c.relname, 6), 'YYYYMM') + interval '1 month') at time zone 'UTC' <= $1
    )
    or coalesce(
        (select r.slot from prescient.slot_run r where r.state = 'done' order by r.slot limit 1) < least(
            $1::timestamptz,
            (select min(f.next_check_at) from prescient.future_job f),
            (select min(o.slot) from prescient.slot_run o where o.state = 'open')
        ) - interval '24 hours',
        false
    )
    or coalesce(
        (
            select o.written_at < $1::timestamptz - interval '24 hours'
                and not exists (select from prescient.event_consumer c where (c.mark, c.position) < (o.mark, o.position))
            from prescient.event_outbox o
            order by o.mark, o.position
            limit 1
        ),
        false
    )
