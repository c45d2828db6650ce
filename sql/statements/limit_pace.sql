-- Returns how far ahead the first of $3 checks may begin, in microseconds. The others follow, one
-- every $4 microseconds.
-- Called by slots/internal/permit.pace.refill.
select (extract(epoch from prescient.reserve_rate($1, $2, $3, $4::double precision * interval '1 microsecond')) * 1000000)::bigint
