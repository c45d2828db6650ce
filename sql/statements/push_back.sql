-- Moves a waiting check to a later slot. See the function push_back.
-- Called by jobs.Client.PushBack.
select prescient.push_back($1, $2, $3, $4, $5 * interval '1 microsecond', $6, $7)
