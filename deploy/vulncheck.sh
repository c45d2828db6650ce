#!/bin/sh
# Runs govulncheck, whose command line the arguments are, on all packages of the module. If it cannot reach its
# database, it says so, and that nothing was checked.
set -u
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$@" ${GOVULNDB:+-db "$GOVULNDB"} ./... >"$log" 2>&1
status=$?
cat "$log"
if [ $status -ne 0 ] && grep -q 'fetching vulnerabilities' "$log"; then
    echo "vulncheck: nothing was checked: the database at ${GOVULNDB:-https://vuln.go.dev} cannot be reached." \
        "GOVULNDB names another one, such as file:///srv/vulndb" >&2
fi
exit $status
