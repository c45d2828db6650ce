-- Returns the first 60 bits of the SHA-256 of a text, by which pick_slot chooses a slot. grid.Hash of
-- package slots/grid returns the same.
create or replace function prescient.window_hash(key text)
returns bigint
language sql
stable
strict
parallel safe
as $$
    select ('x' || left(encode(sha256(convert_to(key, 'UTF8')), 'hex'), 15))::bit(60)::bigint
$$;
