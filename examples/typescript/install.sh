#!/bin/sh
# Installs what package-lock.json says, into node_modules beside it, where that is not done. Where it cannot be done it says
# so, and the test of the example skips.
set -u
cd "$(dirname "$0")"

command -v npm >/dev/null 2>&1 || { echo "npm is not installed; the test of examples/typescript skips" >&2; exit 0; }
[ node_modules/.package-lock.json -nt package-lock.json ] && exit 0
echo "fetching the packages of examples/typescript" >&2
npm ci --no-audit --no-fund --ignore-scripts --loglevel=error >&2 || echo "they cannot be fetched; the test of examples/typescript skips" >&2
