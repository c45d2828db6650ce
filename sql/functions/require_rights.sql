-- Fails if a check belongs to a schedule or to a rule, and the caller is no runner. The rows of job
-- "schedule" say what schedules publish next, those that schedules enqueue (of_schedule) are what they
-- publish, and those of a rule say when its steps fire. So a role that may not write the tables of both may
-- not write their rows either. The triggers of rules call functions of their own.
-- inserts: the caller may insert a row. A transaction that is repeatable read or serializable may have a snapshot
-- from before the rule, also one that another session keeps open for it. It does not see the rule. But the apply has
-- written the row of the job, and the insert below fails with 40001 if the row that is there now is not in the snapshot.
-- It fails in the same way if the row was written since for another reason: the first use of the name, a pause, or a run
-- that registers the job, once an hour at most. Such a transaction cannot change other rows of a rule: it does not see
-- them, or they have changed.
-- The insert waits for another transaction that uses the name for the first time, so a caller goes by the order of names.
-- Called by the functions for applications, which run with the owner's rights: the caller is the
-- role of the session.
create or replace function prescient.require_rights(job_exec text, of_schedule boolean, inserts boolean default false)
returns void
language plpgsql
as $$
declare
    caller text := coalesce(nullif(current_setting('role'), 'none'), session_user);
begin
    if job_exec = 'schedule' or of_schedule then
        if not has_table_privilege(caller, 'prescient.schedule', 'delete') then
            raise exception '% belongs to recurring schedules, which role % may not change',
                case when job_exec = 'schedule' then 'job "schedule"' else 'an item_key of entity_name "schedule" that begins with the entity_key' end,
                quote_ident(caller)
                using errcode = 'insufficient_privilege',
                    hint = 'Ask for a check with another name. To change schedules, '
                        'use a role that is a member of prescient_runner.';
        end if;
    elsif not has_table_privilege(caller, 'prescient.rule_fired', 'insert') then
        if exists (select from prescient.rule r where r.name = job_exec) then
            raise exception 'job % belongs to the rule of that name, whose checks role % may not change',
                quote_literal(job_exec), quote_ident(caller)
                using errcode = 'insufficient_privilege',
                    hint = 'Its triggers keep the checks in step with the table. To change them by hand, '
                        'use a role that is a member of prescient_runner.';
        elsif inserts and job_exec is not null
            and current_setting('transaction_isolation') not in ('read committed', 'read uncommitted')
        then
            -- As ensure_job, so that an apply that waits for this transaction names it.
            if not exists (select from prescient.job j where j.name = job_exec) then
                perform pg_try_advisory_xact_lock(hashtextextended('prescient.job ' || job_exec, 0));
            end if;
            insert into prescient.job (job, name) values (prescient.job_number(job_exec), job_exec) on conflict do nothing;
        end if;
    end if;
end
$$;
revoke all on function prescient.require_rights(text, boolean, boolean) from public;
