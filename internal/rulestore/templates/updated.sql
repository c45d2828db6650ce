-- Rule {rule}: a row waits as its new values say. The trigger calls the function only if a column that the rule reads has
-- changed.
create or replace function {update}()
returns trigger
language plpgsql
security definer
{trigger_settings}
as {quote}
-- What a row says: version {version}.
declare
    old_row   {type};
    new_row   {type};
    clock     timestamptz := {clock};
    now       timestamptz := coalesce(clock, clock_timestamp());
    came      timestamptz := coalesce(clock, transaction_timestamp());
    old_key   text;
    new_key   text;
    old_since timestamptz;
    new_since timestamptz;
    new_first timestamptz;
    old_asks  text;
    new_asks  text;
    old_looks text;
    new_looks text;
    old_enters text;
    new_enters text;
    old_first timestamptz;
    old_coming timestamptz[];
    coming    timestamptz[];
    old_ends  timestamptz;
    new_ends  timestamptz;
    old_paused boolean;
    new_paused boolean;
    is_about  boolean;
    is_done   boolean;
    counted   boolean; -- whether the row waited for something
    was_done  boolean;
    counts    boolean; -- whether it does now
    changed   boolean; -- whether a column has that since names with changed; null: not known yet
    same      boolean; -- whether since alone has changed; null: unknown, because a column was renamed
begin
    begin
        if not ({new_types}) then
            raise datatype_mismatch;
        end if;
        old_row := row({old_columns});
        new_row := row({new_columns});
        changed := {changed};
        if not ({usual}) then
            raise datatype_mismatch;
        end if;
        select r.key, r.since, r.first, r.coming, r.asks, r.looks, r.enters, r.about and not r.done and r.first is not null, r.done, r.ends, r.paused
        into old_key, old_since, old_first, old_coming, old_asks, old_looks, old_enters, counted, was_done, old_ends, old_paused
        from {row}(old_row, now) as r;
        select r.key, r.since, r.first, r.asks, r.looks, r.enters, r.coming, r.about, r.done, r.ends, r.paused
        into new_key, new_since, new_first, new_asks, new_looks, new_enters, coming, is_about, is_done, new_ends, new_paused
        from {row}(new_row, now) as r;
        same := {same};
    exception
        when others or assert_failure then
            select r.key, r.since, r.first, r.coming, r.asks, r.looks, r.enters, r.about and not r.done and r.first is not null, r.done, r.ends, r.paused
            into old_key, old_since, old_first, old_coming, old_asks, old_looks, old_enters, counted, was_done, old_ends, old_paused
            from {safe}(old, now) as r;
            select r.key, r.since, r.first, r.asks, r.looks, r.enters, r.coming, r.about, r.done, r.ends, r.paused
            into new_key, new_since, new_first, new_asks, new_looks, new_enters, coming, is_about, is_done, new_ends, new_paused
            from {safe}(new, now) as r;
            if changed is null then -- a column was renamed, and the texts of the two versions tell
                changed := {marks} and (old_asks <> new_asks) is not false;
            end if;
    end;
    counts := is_about and not is_done and new_first is not null;
    if same and counted and counts and old_since <= new_since and old_first <= new_first and old_first > now then
        -- The clock moves later before a step is due: the check finds out.
        return null;
    end if;

    if old_key <> new_key then
        perform prescient.rule_rename(
            {name}, {entity}, old_key, new_key, case when counts then greatest(new_first, timestamptz '{since_first}') end, clock
        );
    end if;
    if changed or old_paused <> new_paused or old_paused is null and new_paused is not null then
        perform prescient.rule_mark(
            {name}, array[new_key], came, changed, case when old_paused is distinct from new_paused then new_paused end,
            ends => old_paused is null and not new_paused
        );
    end if;
    if {meets} and is_about and is_done and not was_done and new_first is not null then
        -- The check tells that the row is done in time.
        perform prescient.rule_wait(
            {name}, {entity}, new_key, came - interval '1 microsecond', clock => clock,
            came => case when changed or old_since is distinct from new_since then came end,
            again => not changed and old_since is not distinct from new_since
        );
    elsif {recovers} and octet_length(new_key) between 1 and 500
        and (
            is_done and not was_done and (not counted or old_first <= now)
            or counted and old_first <= now and is_about and old_since is distinct from new_since
            or counted and not counts and ({at_once} or new_first is null)
        )
    then
        -- A step may have fired, also for a start before this one of which no check has told yet. The check tells that it is
        -- over.
        perform prescient.rule_wait(
            {name}, {entity}, new_key, case when counts then least(now, greatest(new_first, timestamptz '{since_first}')) else now end,
            clock => clock, came => case when counts then came end, again => old_since is not distinct from new_since
        );
    elsif counts
        and (
            old_since is distinct from new_since or old_coming is distinct from coming
            or old_asks is distinct from new_asks or old_enters is distinct from new_enters or not counted and not was_done
        )
    then
        -- The clock starts again, or the row has come under the conditions.
        perform prescient.rule_wait(
            {name}, {entity}, new_key, greatest({new_first}, timestamptz '{since_first}'), clock => clock, came => came,
            again => old_since is not distinct from new_since
        );
    elsif counts and old_paused <> new_paused then
        -- The check finds out how much of each delay is left.
        perform prescient.rule_resume({name}, {entity}, new_key, array[now + interval '1 microsecond'], clock, again => true, looked_at => now);
    elsif counted and counts and ({meets} or {recovers} and old_first <= now) and new_ends < coalesce(old_ends, timestamptz 'infinity') then
        -- The row tells when it will be done, and something follows. The check finds out.
        perform prescient.rule_resume({name}, {entity}, new_key, array[now + interval '1 microsecond'], clock, again => true, looked_at => now);
    elsif counts and (not counted or old_looks is distinct from new_looks) then
        perform prescient.rule_resume({name}, {entity}, new_key, array[{resume}], clock, again => counted, looked_at => now);
    elsif counted and not counts and ({at_once} or new_first is null) then
        -- A row that did not count before waits for nothing, or for the check that tells that it was met.
        perform prescient.cancel_keys({name}, {entity}, array[new_key], clock);
    end if;
    return null;
end
{quote};
