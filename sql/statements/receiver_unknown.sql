-- Returns the receivers that rules or schedules notify and that no forwarder has named: the rules and some of the schedules
-- that do, how many of the newest 10,000 events of the outbox are messages for it, whether the outbox may have older
-- events, and since when. No index of the outbox has the type. The prefix of messages is written in two parts, because
-- "prescient." stands for the schema here.
-- Called by slots/ledger.Ledger.UnknownReceivers.
with named as (
    select n.receiver #>> '{}' as receiver, 'rule ' || r.name as of
    from prescient.rule r
    cross join lateral jsonb_path_query(r.definition::jsonb, '$.**.notify') as n (receiver)
    where jsonb_typeof(n.receiver) = 'string'
    union
    select g.notify, 'schedule ' || s.id
    from (select distinct notify from prescient.schedule where notify is not null) as g
    cross join lateral (
        select s.id
        from prescient.schedule s
        where s.notify = g.notify
        order by s.id
        limit 20
    ) as s
), unknown as (
    select receiver, array_agg(of order by of) as of
    from named n
    where not exists (
        select
        from prescient.event_consumer c
        where c.name = 'receiver:' || n.receiver or 'prescient' || '.notify.' || n.receiver like any (c.types)
    )
    group by receiver
), newest as materialized ( -- read once for all receivers, and not at all if there is none
    select o.type, o.written_at
    from prescient.event_outbox o
    where exists (select from unknown)
    order by o.mark desc, o.position desc
    limit 10000
), message as (
    select type, count(*) as n, min(written_at) as oldest
    from newest
    group by type
)
select u.receiver, u.of, coalesce(m.n, 0), (select count(*) = 10000 from newest), m.oldest
from unknown u
left join message m on m.type = 'prescient' || '.notify.' || u.receiver
order by u.receiver
