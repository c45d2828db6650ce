#!/bin/sh
# Fetches the server programs of each PostgreSQL in package.json by npm, once, and prints the directory that has them as
# postgres-15/native/bin, postgres-16/native/bin and so on. It is below PRESCIENT_TEST_CACHE, or root's /var/cache, or else
# the user's cache: the tests of root start servers as another user, to whom root's home is closed.
set -eu
umask 022

give_up() {
    echo "the programs of other PostgreSQL versions cannot be had: $1" >&2
    exit 1
}

[ "$(uname -sm)" = "Linux x86_64" ] || give_up "the npm package has them for Linux on x86-64"
command -v npm >/dev/null 2>&1 || give_up "this needs npm (Debian, Ubuntu: package npm)"

here=$(cd "$(dirname "$0")" && pwd)
if [ "$(id -u)" = 0 ]; then cache=/var/cache; else cache=${XDG_CACHE_HOME:-$HOME/.cache}; fi
cache=${PRESCIENT_TEST_CACHE:-$cache/prescient-test}
dir=$cache/$(cksum <"$here/package-lock.json" | tr ' ' -)
[ -d "$dir" ] && { echo "$dir/node_modules"; exit 0; }

mkdir -p "$cache"
new=$(mktemp -d "$cache/new-XXXXXX")
trap 'rm -rf "$new"' EXIT
chmod 755 "$new"
cp "$here/package.json" "$here/package-lock.json" "$new"
echo "fetching PostgreSQL 15 to 18 by npm, 90 MB, into $cache" >&2
(cd "$new" && timeout 300 npm ci --ignore-scripts --no-audit --no-fund >log 2>&1) || give_up "npm says: $(tail -n 3 "$new/log" | tr '\n' ' ')"

# An npm package has no symbolic links, but a list of them.
(cd "$new/node_modules" && node -e '
const fs = require("fs"), path = require("path")
for (const name of fs.readdirSync(".").filter(name => name.startsWith("postgres-"))) {
    for (const { source, target } of JSON.parse(fs.readFileSync(path.join(name, "native/pg-symlinks.json")))) {
        fs.symlinkSync(path.relative(path.dirname(target), source), path.join(name, target))
    }
}')
mv "$new" "$dir" 2>/dev/null || [ -d "$dir" ] # another one was faster
echo "$dir/node_modules"
