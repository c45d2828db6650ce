#!/bin/sh
# Installs what the tests of the pages need where it is missing and can be had: Chromium, by apt-get, and axe-core as
# package-lock.json says, into node_modules beside it. Where that cannot be done it says so, and the tests skip.
set -u
cd "$(dirname "$0")"

if ! command -v chromium >/dev/null 2>&1; then
    sudo=
    [ "$(id -u)" = 0 ] || sudo="sudo -n"
    if command -v apt-get >/dev/null 2>&1 && { [ -z "$sudo" ] || $sudo true 2>/dev/null; }; then
        echo "installing Chromium with apt-get" >&2
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get update -qq
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-liberation >&2
    fi
    command -v chromium >/dev/null 2>&1 || echo "Chromium is not installed (Debian: package chromium); the tests of the pages in a browser skip" >&2
fi

command -v npm >/dev/null 2>&1 || { echo "npm is not installed; the tests of the pages in a browser skip" >&2; exit 0; }
[ node_modules/.package-lock.json -nt package-lock.json ] && exit 0
echo "fetching axe-core" >&2
npm ci --no-audit --no-fund --ignore-scripts --loglevel=error >&2 || echo "axe-core cannot be fetched; the tests of the pages in a browser skip" >&2
