#!/bin/sh
# Puts psycopg into build/python, where python3 has none: by pip, as requirements.txt says, or from Debian's packages, which
# are unpacked and not installed. Where that cannot be done it says so, and the test of the example skips.
set -u
cd "$(dirname "$0")/../.."
lib=build/python

command -v python3 >/dev/null 2>&1 || { echo "python3 is not installed; the test of examples/python skips" >&2; exit 0; }
PYTHONPATH=$lib python3 -c 'import psycopg' >/dev/null 2>&1 && exit 0

echo "fetching psycopg for examples/python" >&2
python3 -m pip install --quiet --retries 0 --timeout 10 --target "$lib" -r examples/python/requirements.txt >/dev/null 2>&1 && exit 0

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fetch() { (cd "$dir" && apt-get download -qq python3-psycopg python3-typing-extensions >/dev/null 2>&1); }
if command -v dpkg-deb >/dev/null 2>&1 && { fetch || { [ "$(id -u)" = 0 ] && apt-get update -qq && fetch; }; }; then
    for package in "$dir"/*.deb; do dpkg-deb -x "$package" "$dir/unpacked"; done
    mkdir -p "$lib" && cp -r "$dir"/unpacked/usr/lib/python3/dist-packages/. "$lib"
fi
PYTHONPATH=$lib python3 -c 'import psycopg' || echo "psycopg is nowhere to be found; the test of examples/python skips" >&2
