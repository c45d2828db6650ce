-- Takes the lock that a run holds while it checks a group, until the transaction ends. It is for
-- applications that change what the group's check reads. The group of a row without a group_key is
-- entity_name || chr(31) || entity_key.
create or replace function prescient.lock_group(group_key text)
returns void
language plpgsql
as $$
begin
    if group_key is null then
        raise exception 'group_key is null; it must be given'
            using errcode = 'null_value_not_allowed',
                hint = 'The group of a row without a group_key is entity_name || chr(31) || entity_key.';
    end if;
    perform pg_advisory_xact_lock(hashtextextended('prescient.group ' || group_key, 0));
end
$$;
