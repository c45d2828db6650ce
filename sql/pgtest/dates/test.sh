#!/bin/sh
# Runs tests at other dates: test.sh PACKAGE... takes each package at each instant of DATES, which defaults to those below.
# It changes the clock of the tests and of the servers that they start, and not that of the machine. Package time reads the
# distance from a file, and libfaketime (Debian: libfaketime) gives it to PostgreSQL. A test may not depend on the date, so
# a test that fails here is at fault. One exception: with libfaketime 0.9.10, tests of lock_timeout may wait until they fail.
set -eu
cd "$(dirname "$0")/../../.."
: "${DATES:=2026-12-29T23:50:00Z 2026-12-30T23:50:00Z 2026-12-31T23:50:00Z 2028-02-29T12:00:00Z 2027-03-28T00:50:00Z 2027-10-31T00:50:00Z}"
[ $# -gt 0 ] || { echo "name packages, such as ./slots" >&2; exit 2; }
library=$(ls /usr/lib/*/faketime/libfaketime.so.1 2>/dev/null | head -n 1)
[ -n "$library" ] || { echo "libfaketime is missing: apt-get install libfaketime" >&2; exit 1; }

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# The file has one name, so that Go builds everything once. It is empty for programs that are built here.
shift=$PWD/build/clock-shift
mkdir -p build
: > "$shift"
source=$(go env GOROOT)/src/time/time.go
cp "$source" "$dir/time.go"
# Bubbles of testing/synctest begin in the year 2000, and keep their time.
sed -i 's/^\tsec, nsec, mono := runtimeNow()$/&\n\tif sec > 1e9 {\n\t\tsec += clockShift\n\t}/' "$dir/time.go"
cat >> "$dir/time.go" << END

var clockShift = func() (seconds int64) {
	text, _ := readFile("$shift")
	for _, c := range text {
		if c >= '0' && c <= '9' {
			seconds = 10*seconds + int64(c-'0')
		}
	}
	return seconds
}()
END
echo "{\"Replace\": {\"$source\": \"$dir/time.go\"}}" > "$dir/overlay.json"
export GOFLAGS="${GOFLAGS-} -overlay=$dir/overlay.json"

# Servers start without the environment of the tests, so their program sets it.
programs=$dir/bin
server=$(readlink -f "$(command -v postgres || ls /usr/lib/postgresql/*/bin/postgres | tail -n 1)")
mkdir "$programs"
chmod 755 "$dir" "$programs"
for program in "$(dirname "$server")"/*; do
    [ "$program" = "$server" ] || ln -s "$program" "$programs"
done

failed=
for package; do
    go test -c -o "$dir/test" "$package"
    [ -e "$dir/test" ] || continue # it has no tests
    for at in $DATES; do
        seconds=$(($(date -d "$at" +%s) - $(date +%s)))
        [ $seconds -gt 0 ] || { echo "$at has passed" >&2; exit 2; }
        echo "== $package at $at"
        echo $seconds > "$shift"
        printf '#!/bin/sh\nexec env LD_PRELOAD=%s FAKETIME=+%ss FAKETIME_DONT_FAKE_MONOTONIC=1 NO_FAKE_STAT=1 %s "$@"\n' \
            "$library" $seconds "$server" > "$programs/postgres"
        chmod 755 "$programs/postgres"
        (cd "$package" && PATH=$programs:$PATH "$dir/test" -test.timeout 1h ${RUN:+-test.run "$RUN"}) || failed="$failed $package@$at"
        : > "$shift"
    done
    rm "$dir/test"
done
[ -z "$failed" ] || { echo "FAILED:$failed" >&2; exit 1; }
