#!/bin/sh
# Runs tests at other dates: test.sh PACKAGE... takes each package at each instant of DATES, which defaults to those below. With
# RUN, it takes the tests whose names match. A package is a directory, also of a module beside this one; DIRECTORY/... is each
# package below it.
#
# It shifts the clock of the tests, of the programs that they build or start, and of their servers, all by one number of seconds.
# The clock of the machine stays. Package time reads the number from a file, and clock.c has it compiled in. Files keep the times
# of the machine's clock. A test may not depend on the date, so a test that fails here is at fault.
set -eu
cd "$(dirname "$0")/../../.."
top=$PWD
# Before midnight at the end of a year, a leap day, and an hour before summer time begins and ends in Europe and in America.
: "${DATES:=2026-12-29T23:50:00Z 2026-12-30T23:50:00Z 2026-12-31T23:50:00Z 2028-02-29T12:00:00Z
    2027-03-28T00:50:00Z 2027-10-31T00:50:00Z 2027-03-14T06:50:00Z 2027-11-07T05:50:00Z}"
[ $# -gt 0 ] || { echo "name packages, such as ./slots" >&2; exit 2; }
command -v cc >/dev/null || { echo "a C compiler is missing: apt-get install gcc" >&2; exit 1; }
packages=$(for package; do
    case $package in
        */...) (cd "${package%/...}" && go list -f '{{.Dir}}' ./...) ;;
        *) (cd "$package" && pwd) ;;
    esac
done)

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
# The file has one name, so that Go builds everything once. It is empty for programs that are built here.
shift=$top/build/clock-shift
mkdir -p build
: > "$shift"
source=$(go env GOROOT)/src/time/time.go
cp "$source" "$dir/time.go"
# Bubbles of testing/synctest begin in the year 2000, and keep their time.
sed -i 's/^\tsec, nsec, mono := runtimeNow()$/&\n\tif sec > 1e9 {\n\t\tsec += clockShift\n\t}/' "$dir/time.go"
grep -q clockShift "$dir/time.go" || { echo "time.Now of $(go version) is not the one that this script can shift" >&2; exit 1; }
cat >> "$dir/time.go" << GO

var clockShift = func() (seconds int64) {
	text, _ := readFile("$shift")
	for _, c := range text {
		if c >= '0' && c <= '9' {
			seconds = 10*seconds + int64(c-'0')
		}
	}
	return seconds
}()
GO
echo "{\"Replace\": {\"$source\": \"$dir/time.go\"}}" > "$dir/overlay.json"
export GOFLAGS="${GOFLAGS-} -overlay=$dir/overlay.json"

# Servers start without the environment of the tests, so their program sets it.
programs=$dir/bin
server=$(readlink -f "$(command -v postgres || ls /usr/lib/postgresql/*/bin/postgres | tail -n 1)")
mkdir "$programs"
for program in "$(dirname "$server")"/*; do
    [ "$program" = "$server" ] || ln -s "$program" "$programs"
done
printf '#!/bin/sh\nLD_PRELOAD=%s exec %s "$@"\n' "$dir/clock.so" "$server" > "$programs/postgres"
chmod 755 "$dir" "$programs" "$programs/postgres"

failed=
for package in $packages; do
    mkdir "$dir/tests"
    (cd "$package" && go test -c -o "$dir/tests/")
    test=$(ls "$dir"/tests/*.test 2>/dev/null) || { rmdir "$dir/tests"; continue; } # it has no tests
    for at in $DATES; do
        seconds=$(($(date -d "$at" +%s) - $(date +%s)))
        [ $seconds -gt 0 ] || { echo "$at has passed" >&2; exit 2; }
        echo "== $package at $at"
        cc -O2 -shared -fPIC -Wall -DSHIFT=$seconds -o "$dir/clock.so" sql/pgtest/dates/clock.c
        chmod 755 "$dir/clock.so"
        echo $seconds > "$shift"
        (cd "$package" && LD_PRELOAD=$dir/clock.so PATH=$programs:$PATH:$top/bin \
            "$test" -test.timeout 1h ${RUN:+-test.run "$RUN"}) || failed="$failed $package@$at"
        : > "$shift"
    done
    rm -r "$dir/tests"
done
[ -z "$failed" ] || { echo "FAILED:$failed" >&2; exit 1; }
