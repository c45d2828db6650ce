#!/bin/sh
# Installs PostgreSQL's server programs with apt-get when initdb is nowhere to be found and this user may install;
# else prints the one line to type. Does nothing where they are.
set -eu

found() {
    command -v initdb >/dev/null 2>&1 && return 0
    for dir in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /opt/homebrew/opt/postgresql*/bin /usr/local/opt/postgresql*/bin; do
        [ -x "$dir/initdb" ] && return 0
    done
    return 1
}

give_up() {
    cat >&2 <<'TEXT'
PostgreSQL (15 or newer) is needed, and initdb is nowhere to be found. Install it with one of

    Debian, Ubuntu:  sudo apt-get install -y postgresql
    Fedora:          sudo dnf install -y postgresql-server
    macOS:           brew install postgresql@17

and run this again.
TEXT
    exit 1
}

found && exit 0
command -v apt-get >/dev/null 2>&1 || give_up

sudo=
if [ "$(id -u)" != 0 ]; then
    # Without a terminal sudo must not ask for a password.
    if [ -t 0 ]; then sudo="sudo"; else sudo="sudo -n"; fi
    command -v sudo >/dev/null 2>&1 && $sudo true 2>/dev/null || give_up
fi

echo "installing PostgreSQL with apt-get" >&2

$sudo env DEBIAN_FRONTEND=noninteractive apt-get update -qq
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql
found || give_up
