-- How far ahead the first of so many checks ($3) may begin, in microseconds; the others follow, one every $4 microseconds.
select (extract(epoch from prescient.take_pace($1, $2, $3, $4::double precision * interval '1 microsecond')) * 1000000)::bigint
