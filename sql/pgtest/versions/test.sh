#!/bin/sh
# Runs tests on each PostgreSQL from 15 to 18: test.sh short for the part that make test-all has, test.sh with the arguments of
# go test, which default to ./..., for others. The short part is left out, and says so, where the programs cannot be had.
set -eu
cd "$(dirname "$0")/../../.."
# The version of PATH, on which make test-all runs every test unless a server is named: the short part leaves it out.
usual=
[ -n "${PRESCIENT_TEST_DATABASE_URL-}" ] || usual=$(postgres --version 2>/dev/null | sed -n 's/.*(PostgreSQL) \([0-9]*\).*/\1/p')
unset PRESCIENT_TEST_DATABASE_URL

# What a new version may break: every statement and its plan, the migrations, the roles, and the engine as a whole.
short() {
    built=$(mktemp -d)
    trap 'rm -rf "$built"' EXIT
    for package in sql testkit; do
        go test -c -o "$built/$package" "./$package"
    done
    on "$1" sh -c "(cd sql && '$built/sql' -test.run '$short_of_sql') && (cd testkit && '$built/testkit')"
}
short_of_sql='EveryStatementIsValid|SlotIndexAlone|EveryFunctionTakesTheRole|PrintedScript'

on() {
    programs=$1
    shift
    for version in 15 16 17 18; do
        [ "$version" != "$left_out" ] || continue
        bin=$programs/postgres-$version/native/bin
        "$bin/postgres" --version
        PATH="$bin:$PATH" "$@" || failed="${failed-} $version"
    done
    [ -z "${failed-}" ] || { echo "FAILED on PostgreSQL$failed" >&2; exit 1; }
}

left_out=
if [ "${1-}" = short ]; then
    left_out=$usual
    programs=$(sql/pgtest/versions/fetch.sh) || { echo "SKIPPED: tests on PostgreSQL 15 to 18" >&2; exit 0; }
    short "$programs"
else
    programs=$(sql/pgtest/versions/fetch.sh)
    on "$programs" go test -count 1 -timeout 40m "${@:-./...}"
fi
