-- Returns everything that is known of the checks of an entity, in order: of each row, ended or
-- waiting, how it was requested, each entry of its journal, and how it ended or what it waits for. A
-- null job_exec takes every job, a null item_key every item. Anonymous rows are found once they
-- have ended.
-- what: enqueued; next, retry, deferred, rescheduled, pushed_back, recorded, honoured, width,
-- retried, moved, renamed, acked (see journal_entry); an outcome, see future_job_history; waiting; or arriving, of a
-- row on its way here from another store. slot: the one that the row was in. requested_for: of enqueued
-- and recorded, the requested instant; up to 1970: as soon as possible; null: not known, because a rule may have written
-- another one since. within: the window after it in which any slot would have done.
-- run, opened_at, finished_at: the ledger's entry of the slot, if its run is part of the timeline. run is
-- by_hand for a check that an operator had run, also if the slot's run or catch-up came later.
-- hindrance: what keeps a waiting row from its check: paused, unserved (no run of the last 7
-- days knows its job), missed, open (its slot is being run, or was left open), straggler (it came
-- after its slot was closed). moved_from, moved_to: the stores, of moved; the keys, of renamed and of
-- a row that ended because the key was changed. error: of acked, why.
create or replace function prescient.why(entity_name text, entity_key text, item_key text default null, job_exec text default null, most integer default 1000)
returns table (
    id            bigint,
    job           text,
    item          text,
    at            timestamptz,
    what          text,
    slot          timestamptz,
    requested_for timestamptz,
    by_role       text,
    app           text,
    actor         text,
    runner        text,
    lateness      interval,
    duration      interval,
    error         text,
    run           text,
    opened_at     timestamptz,
    finished_at   timestamptz,
    hindrance     text,
    within        interval,
    moved_from    text,
    moved_to      text
)
language plpgsql
stable
set row_security = off
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
begin
    return query
    with told as materialized (
        (select
            f.id, coalesce(j.name, '#' || f.job) as name, f.item_key::text, f.enqueued_at, f.enqueued_by::text, f.enqueued_app::text, f.enqueued_actor::text,
            f.requested_for, f.requested_within, f.journal, f.first_check_at, f.next_check_at as slot, 'waiting' as what, null::timestamptz as finished_at,
            null::interval as lateness, null::interval as duration, null::text as runner, null::text as error, f.job, f.last_error as whole, null::text as ack
        from prescient.future_job f
        left join prescient.job j on j.job = f.job
        where f.entity_name = why.entity_name
            and f.entity_key = why.entity_key
            and (why.job_exec is null or f.job = prescient.find_job(why.job_exec))
            and (why.item_key is null or f.item_key = why.item_key)
            and f.item_key is not null
        order by f.enqueued_at desc, f.id desc
        limit why.most)
        union all
        (select
            h.id, h.job_exec, h.item_key, h.enqueued_at, h.enqueued_by, h.enqueued_app, h.enqueued_actor,
            h.requested_for, h.requested_within, h.journal, h.first_check_at, h.slot, h.outcome, h.finished_at,
            h.lateness, h.duration, h.runner, case when h.outcome = 'failed' then h.last_error end, null, h.last_error, h.ack
        from prescient.future_job_history h
        where h.entity_name = why.entity_name
            and h.entity_key = why.entity_key
            and (why.job_exec is null or h.job_exec = why.job_exec)
            and (why.item_key is null or h.item_key = why.item_key)
        order by h.enqueued_at desc, h.id desc
        limit why.most)
        union all
        select
            r.id, i.job_exec, r.item_key, r.enqueued_at, r.enqueued_by, r.enqueued_app, r.enqueued_actor,
            r.requested_for, r.requested_within, r.journal, r.first_check_at, r.next_check_at, 'arriving', null, null, null, null, null, null, r.last_error, null
        from prescient.transfer_in i
        cross join lateral json_populate_record(null::prescient.future_job, i.data) as r
        where i.entity_name = why.entity_name
            and i.entity_key = why.entity_key
            and (why.job_exec is null or i.job_exec = why.job_exec)
            and (why.item_key is null or i.item_key = why.item_key)
            and i.item_key is not null
    ), entry as (
        select
            s.id, s.name, s.item_key, s.enqueued_at as begun_at, 0::bigint as nth, s.enqueued_at as at, 'enqueued' as what, s.first_check_at as slot,
            -- A rule writes another instant there, also without an entry in the journal. One that fits the first slot may be told.
            case
                when s.requested_for is null then s.first_check_at
                when s.requested_for > s.first_check_at then null
                when s.requested_within is not null or s.requested_for > s.first_check_at - (select width from prescient.setting) then s.requested_for
                when s.requested_for > s.enqueued_at or exists (select from prescient.rule u where u.name = s.name) then null
                else s.requested_for
            end as requested_for, s.enqueued_by as by_role, s.enqueued_app as app, s.enqueued_actor as actor,
            null::text as runner, null::interval as lateness, null::interval as duration, null::text as error, null::bigint as job,
            s.requested_within, null::text as moved_from, null::text as moved_to
        from told s
        union all
        select
            s.id, s.name, s.item_key, s.enqueued_at, t.nth,
            coalesce(
                to_timestamp((e.value ->> 'at')::bigint / 1000.0),
                to_timestamp((e.value ->> 6)::bigint / 1000.0),
                to_timestamp((e.value ->> 1)::bigint) + (e.value ->> 3)::bigint::double precision * interval '1 millisecond'
            ),
            coalesce(e.value ->> 'what', e.value ->> 0), to_timestamp(coalesce(e.value ->> 'slot', e.value ->> 1)::bigint), to_timestamp((e.value ->> 'for')::bigint),
            e.value ->> 'by', e.value ->> 'app', e.value ->> 'actor', e.value ->> 2,
            (e.value ->> 3)::bigint::double precision * interval '1 millisecond', (e.value ->> 4)::bigint::double precision * interval '1 microsecond',
            -- A journal has the beginning and the end of a long error, and the row has the whole of the last one.
            case
                when e.value ->> 5 like '% ... %'
                    and starts_with(s.whole, split_part(e.value ->> 5, ' ... ', 1))
                    and right(s.whole, length(split_part(e.value ->> 5, ' ... ', -1))) = split_part(e.value ->> 5, ' ... ', -1)
                    then s.whole
                else coalesce(e.value ->> 'because', e.value ->> 5)
            end,
            null, null,
            e.value ->> 'from', e.value ->> 'to'
        from told s
        cross join lateral unnest(string_to_array(s.journal, chr(10))) with ordinality as t (line, nth)
        cross join lateral (select prescient.journal_value(t.line) as value offset 0) as e
        -- The outcome tells who cancelled or replaced it.
        where e.value ->> 'what' is distinct from s.what
        union all
        select
            s.id, s.name, s.item_key, s.enqueued_at, 1000, s.finished_at, s.what, s.slot, null,
            e.value ->> 'by', e.value ->> 'app', e.value ->> 'actor', s.runner, s.lateness, s.duration, s.error, s.job, null, null,
            e.value ->> 'to'
        from told s
        left join lateral (
            select last.value
            from (select prescient.journal_value((string_to_array(s.journal, chr(10)))[cardinality(string_to_array(s.journal, chr(10)))]) as value) as last
            where last.value ->> 'what' = s.what
        ) as e on true
        union all
        select
            s.id, s.name, s.item_key, s.enqueued_at, 1001, to_timestamp((e.value ->> 'at')::bigint / 1000.0), e.value ->> 'what', s.slot, null,
            e.value ->> 'by', e.value ->> 'app', e.value ->> 'actor', null, null, null, e.value ->> 'because', null, null, null, null
        from told s
        cross join lateral (select s.ack::jsonb as value) as e
        where s.ack is not null
    )
    select
        e.id, e.name, e.item_key, e.at, e.what, e.slot, e.requested_for, e.by_role, e.app, e.actor, e.runner, e.lateness, e.duration, e.error,
        -- Of the lateness of a check in a journal, four digits are kept.
        case
            when r.run_at > e.slot + e.lateness * (2049 / 2048.0)::double precision then 'by_hand'
            else r.kind
        end,
        coalesce(r.run_at, r.opened_at), r.finished_at,
        case
            when e.what <> 'waiting' then null
            when j.paused_at is not null then 'paused'
            when coalesce(j.registered_at, '-infinity') < clock_timestamp() - interval '7 days'
                and not exists (select from prescient.rule u where u.name = j.name) then 'unserved'
            when e.slot > clock_timestamp() then null
            when r.state = 'done' then 'straggler'
            when r.state = 'open' and (r.kind <> 'by_hand' or e.slot < n.current_slot) then 'open'
            when r.state is null and e.slot < n.current_slot then 'missed'
        end,
        e.requested_within * interval '1 second',
        e.moved_from,
        e.moved_to
    from entry e
    left join prescient.job j on j.job = e.job
    left join prescient.slot_run r on r.slot = e.slot and (e.lateness is not null or e.what = 'waiting')
    cross join (select prescient.slot_floor(clock_timestamp(), s.width) as current_slot from prescient.setting s) as n
    order by e.begun_at, e.id, e.nth;
end
$$;
