-- Ends a transaction that records something: it fails where the claim with the token is not there any more, and leaves
-- a mark by which a runner that gets no reply finds out. ends: nothing of the claim is left to be recorded.
-- moved_to: the first instant to which it has moved rows that it had not locked before; null: to none. Their locks may have been
-- waited for over a boundary, and then it fails: they would be in a slot that has begun. Last, since it may wait for the claim, too,
-- and what was recorded already is to be known by its mark.
create or replace function prescient.fence(at timestamptz, own bigint, this bigint, ends boolean, moved_to timestamptz)
returns void
language plpgsql
as $$
declare
    clock timestamptz;
begin
    if ends then
        delete from prescient.slot_claim c where c.token = own;
    else
        perform from prescient.slot_claim c where c.token = own for key share;
    end if;
    if not found then
        raise exception 'the lease of claim % is lost', own using errcode = 'PS001';
    end if;
    insert into prescient.slot_tally (slot, token, part, job) values (at, own, this, 0);
    clock := clock_timestamp();
    if moved_to <= clock and exists (select from prescient.setting s where prescient.slot_floor(now(), s.width) + s.width <= clock) then
        raise exception 'a slot has begun while rows were moved to it' using errcode = 'PS004';
    end if;
end
$$;
