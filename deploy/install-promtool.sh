#!/bin/sh
# Puts promtool, from Debian's package prometheus, into bin/ where it is nowhere to be found. Nothing is installed and no
# service is started: the package is unpacked. Where that cannot be done it says so, and the tests that need it skip.
set -u

command -v promtool >/dev/null 2>&1 && exit 0
[ -x bin/promtool ] && exit 0

give_up() {
    echo "promtool is nowhere to be found; tests of metrics and alerts skip what needs it (Debian, Ubuntu: package prometheus)" >&2
    exit 0
}

command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 || give_up

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fetch() { (cd "$dir" && apt-get download -qq prometheus >/dev/null 2>&1); }

echo "fetching promtool with apt-get" >&2
fetch || { [ "$(id -u)" = 0 ] && apt-get update -qq && fetch; } || give_up
dpkg-deb --fsys-tarfile "$dir"/prometheus_*.deb | tar -x -C "$dir" ./usr/bin/promtool && mkdir -p bin && mv "$dir/usr/bin/promtool" bin/ || give_up
