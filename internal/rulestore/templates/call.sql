-- Rule {rule}: the role of the triggers may execute all that the rule calls. Otherwise each write to the table would fail.
do {quote}
declare
    login text := current_setting('role');
begin
    perform set_config('role', '{owner}', true);
    begin
        perform r.key, r.about, r.done, r.first from {row}(null, null) as r;
    exception
        when insufficient_privilege then
            raise exception 'the triggers of the rule would fail, because their role {owner} lacks a right: %', sqlerrm
                using errcode = 'object_not_in_prerequisite_state';
        when others or assert_failure then
            null; -- for a row without values
    end;
    perform set_config('role', login, true);
end
{quote};
