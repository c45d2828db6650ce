-- Records on a row whose slot (at) has begun what an enqueue requests; see honour. If the row has a
-- request already, on_conflict treats it as a waiting row: keep leaves it, replace takes its place,
-- push_back moves it to a later instant. It waits for a transaction that has locked the row.
-- Returns false if the row is no longer in the slot; then the caller looks again.
-- Called by enqueue and push_back.
create or replace function prescient.record_request(at timestamptz, number bigint, row_id bigint, asked prescient.request)
returns boolean
language plpgsql
as $$
#variable_conflict use_column
declare
    entry text;
    known prescient.request;
begin
    select (f.request).*
    into known
    from prescient.future_job f
    where f.next_check_at = at and f.job = number and f.id = row_id;
    if not found then
        return false;
    elsif known.check_at is not null and asked.on_conflict = 'keep' then
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
    elsif asked.on_conflict = 'push_back' then
        if (select prescient.slot_ceil(asked.check_at, s.width) <= prescient.slot_ceil(known.check_at, s.width) from prescient.setting s) then
            return true;
        end if;
        known.check_at := asked.check_at;
        known.within := asked.within;
        if known.on_conflict <> 'replace' then
            known.on_conflict := asked.on_conflict;
            known.cap := asked.cap;
        end if;
        asked := known;
    elsif asked.on_conflict = 'keep' then
        return true;
    end if;
    update prescient.future_job f
    set request = asked,
        trace = prescient.traced(f.trace, entry)
    where f.next_check_at = at and f.job = number and f.id = row_id;
    if not found then -- it is locked
        perform prescient.raise_suppressed('the update of the waiting row');
    end if;
    return true;
end
$$;
