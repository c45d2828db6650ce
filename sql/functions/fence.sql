-- Ends a transaction that records something. It fails if the claim with the token is gone, and
-- leaves a mark by which a runner without a reply finds out whether it committed. ends: no rows of
-- the claim are left to record.
-- moved_to: the first instant to which it has moved rows that it had not locked before; null: none.
-- It may have waited for their locks over a boundary. Then it fails, because the rows would be in a
-- slot that has begun. That check comes last: it may wait for the claim too, and the mark has to
-- tell of what is recorded already.
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
    insert into prescient.slot_progress (slot, token, part, job) values (at, own, this, 0);
    clock := clock_timestamp();
    if moved_to <= clock and exists (select from prescient.setting s where prescient.slot_floor(now(), s.width) + s.width <= clock) then
        raise exception 'a slot has begun while rows were moved to it' using errcode = 'PS004';
    end if;
end
$$;
