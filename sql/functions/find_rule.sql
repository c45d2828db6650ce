-- Returns the number of the job of a rule, for the functions that the triggers of rules call. The owner
-- of a table can make such a trigger call them with any name, so the name must be that of a rule. Null: there
-- is no such rule, and nothing is to do: the apply that adds it looks at each row of the table.
-- A transaction whose snapshot is older than the rule does not see it, and neither does the apply see the rows that the
-- transaction writes. So it may write for a name that no run has registered as a job. The apply has written the row of the
-- job, and to insert it here would fail with 40001.
create or replace function prescient.find_rule(rule_name text)
returns bigint
language plpgsql
as $$
begin
    if not exists (select from prescient.rule r where r.name = rule_name) then
        if current_setting('transaction_isolation') in ('read committed', 'read uncommitted') then
            return null;
        elsif exists (select from prescient.job j where j.name = rule_name and j.registered_at is not null) then
            raise exception 'there was no rule % when this transaction began', quote_literal(rule_name)
                using errcode = 'serialization_failure',
                    hint = 'Repeat the transaction. If the rule was never applied: prescient rules apply.';
        end if;
        return prescient.find_job(rule_name);
    end if;
    return prescient.ensure_job(rule_name);
end
$$;
revoke all on function prescient.find_rule(text) from public;
