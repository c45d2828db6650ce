-- Counts one more refusal of events ($1), with the errors ($2). One with $3 refusals, or that was first
-- refused $4 seconds ago, becomes a dead letter; null: no limit. A message that has waited for its time, or an event that
-- was held back, is refused first now. The pause before the next try doubles with
-- each refusal, up to 10 minutes. Returns the dead letters.
-- Called by jobs/event/forward.sender.refuseAgain.
with refused as (
    update prescient.event_dead d
    set refusals = d.refusals + 1,
        refused_at = g.refused_at,
        error = g.error,
        try_at = case
            when d.refusals + 1 < coalesce($3::integer, 2147483647)
                and g.refused_at > t.limit_at
                -- In UTC, as Citus takes no interval of a timestamptz here.
                then (t.now at time zone 'UTC' + least(600, power(2, least(d.refusals, 10))) * interval '1 second') at time zone 'UTC'
        end,
        dead_at = case
            when d.refusals + 1 >= coalesce($3::integer, 2147483647)
                or g.refused_at <= t.limit_at
                then t.now
        end
    from (
            select statement_timestamp() as now, statement_timestamp() - coalesce($4::double precision, 1e9) * interval '1 second' as limit_at
        ) as t,
        lateral (
            select u.number, u.error, case when e.refusals = 0 then t.now else e.refused_at end as refused_at
            from unnest($1::bigint[], $2::text[]) as u (number, error)
            join prescient.event_dead e on e.number = u.number
        ) as g
    where d.number = g.number
    returning d.number, d.dead_at
)
select number
from refused
where dead_at is not null
