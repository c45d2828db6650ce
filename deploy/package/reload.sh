#!/bin/sh
# Lets systemd see the units after an installation or a removal. It starts and enables none: the operator chooses which of them
# a machine needs, and migrates the schema before a daemon restarts.
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
