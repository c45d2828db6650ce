-- Reports whether a job of a slot has rows to claim.
create or replace function prescient.slot_is_claimable(at timestamptz)
returns boolean
language plpgsql
stable
as $$
begin
    return exists (
        select
        from prescient.slot_job s
        left join prescient.job j on j.job = s.job
        where s.slot = at and not s.drained and j.paused_at is null
    );
end
$$;
