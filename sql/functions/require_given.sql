-- Fails for arguments with which a request cannot become a row, and names the argument: a null, a max_wait that does
-- not fit, and an instant more than 100 years ahead, which is a mistake. The columns of a rule's table are no mistake.
-- Called by enqueue_slowly, push_back and reschedule, by enqueue_many for the instant alone, and by cancel and
-- cancel_entity for the key alone.
create or replace function prescient.require_given(
    job_exec    text,
    entity_name text,
    entity_key  text,
    check_at    timestamptz,
    max_wait    interval,
    clock       timestamptz
)
returns void
language plpgsql
stable
as $$
begin
    if num_nulls(job_exec, entity_name, entity_key, check_at) > 0 then
        raise exception '% is null', case
                when job_exec is null then 'job_exec'
                when entity_name is null then 'entity_name'
                when entity_key is null then 'entity_key'
                else 'check_at'
            end
            using errcode = 'null_value_not_allowed';
    end if;
    if not prescient.wait_fits(max_wait) then
        raise exception 'max_wait is %; it must be from 0 to 1000 years', max_wait using errcode = 'invalid_parameter_value';
    end if;
    if check_at > coalesce(clock, clock_timestamp()) + interval '100 years'
        and not exists (select from prescient.rule r where r.name = job_exec)
    then
        raise exception 'check_at is %; it must be within 100 years from now', check_at
            using errcode = 'check_violation', constraint = 'future_job_in_range', table = 'future_job';
    end if;
end
$$;
revoke all on function prescient.require_given(text, text, text, timestamptz, interval, timestamptz) from public;
