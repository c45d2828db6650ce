-- Returns the number that a name gets: the first 63 bits of the SHA-256 of the schema's secret and the
-- name. So two transactions that bring the same new name agree on its number without a wait, and an
-- application can neither choose a number nor foresee one.
-- It runs with the owner's rights, because the secret is the owner's alone.
-- Called by find_job, ensure_job and register_jobs.
create or replace function prescient.job_number(name text)
returns bigint
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set row_security = off
as $$
begin
    return (
        select (('x' || left(encode(sha256(s.secret || convert_to(name, 'UTF8')), 'hex'), 16))::bit(64) >> 1)::bigint
        from prescient.job_secret s
    );
end
$$;
revoke all on function prescient.job_number(text) from public;
