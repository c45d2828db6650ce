-- Returns the receivers that rules or schedules notify and that no forwarder has named: the rules and some of the schedules
-- that do, how many messages for it are in the outbox, up to 10,000, whether there are more, and since when. The prefix
-- of messages is written in two parts, because "prescient." stands for the schema here.
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
)
select u.receiver, u.of, least(o.n, 10000), o.n > 10000, o.oldest
from unknown u
cross join lateral (
    select count(*) as n, min(page.written_at) as oldest
    from (
        select o.written_at
        from prescient.event_outbox o
        where o.type = 'prescient' || '.notify.' || u.receiver
        order by o.mark, o.position
        limit 10001
    ) as page
) as o
order by u.receiver
