#!/bin/sh
# Stops and disables the units before the binary goes. dpkg calls this with remove, and rpm with the number of versions
# that stay. An upgrade stops nothing.
set -e
case "$1" in
remove | 0)
    if [ -d /run/systemd/system ]; then
        systemctl disable --now prescient-run.timer prescient-daemon.service || true
    fi
    ;;
esac
