-- Records on a row whose slot (at) has begun what an enqueue requests; see honour. If the row has a
-- request already, on_conflict treats it as a waiting row: keep leaves it, replace takes its place,
-- push_back moves it to a later instant. Of unless_ended_within the shorter time stays, or none if a
-- request has none, so that neither caller loses a check. It waits for a transaction that has locked the row.
-- Returns false if the row is no longer in the slot; then the caller looks again.
-- Called by enqueue_slowly, push_back_row, rule_wait and settle_rows.
create or replace function prescient.record_request(at timestamptz, number bigint, row_id bigint, asked prescient.request)
returns boolean
language plpgsql
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    entry text;
    known prescient.request;
    weaker integer;
begin
    select (f.request).*
    into known
    from prescient.future_job f
    where f.next_check_at = at and f.job = number and f.id = row_id;
    if not found then
        return false;
    elsif known.check_at is not null
        and asked.on_conflict = 'keep'
        and (known.unless_ended_within is null or asked.unless_ended_within >= known.unless_ended_within)
    then
        return true; -- without a lock, so that callers who ask again and again do not hold up the check
    end if;
    select (f.request).*
    into known
    from prescient.future_job f
    where f.next_check_at = at and f.job = number and f.id = row_id
    for update;
    if not found then
        return false;
    end if;
    if known.check_at is null then
        entry := rtrim(prescient.journal_entry('recorded', at), '}') || ',"for":' || floor(extract(epoch from asked.check_at))::bigint || '}';
    else
        weaker := case
            when known.unless_ended_within is not null and asked.unless_ended_within is not null
                then least(known.unless_ended_within, asked.unless_ended_within)
        end;
        if asked.on_conflict = 'push_back'
            and (select prescient.slot_ceil(asked.check_at, s.width) > prescient.slot_ceil(known.check_at, s.width) from prescient.setting s)
        then
            known.check_at := asked.check_at;
            known.within := asked.within;
            if known.on_conflict <> 'replace' then
                known.on_conflict := asked.on_conflict;
                known.max_wait := asked.max_wait;
            end if;
            asked := known;
        elsif asked.on_conflict <> 'replace' then
            if weaker is not distinct from known.unless_ended_within then
                return true;
            end if;
            asked := known;
        end if;
        asked.unless_ended_within := weaker;
    end if;
    update prescient.future_job f
    set request = asked,
        journal = prescient.journal_add(f.journal, entry)
    where f.next_check_at = at and f.job = number and f.id = row_id;
    if not found then -- it is locked
        perform prescient.raise_suppressed('the update of the waiting row');
    end if;
    return true;
end
$$;
