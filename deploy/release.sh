#!/bin/sh
# Writes into build/release what archives and packages have beside the binary: manual pages, completions, the units of
# systemd, and the licences of the linked modules. The texts come from the binary and the modules, and from nothing else
# of this machine. Also installs the program that goreleaser calls for an SBOM, because goreleaser passes it no settings
# of Go.
set -eu
cd "$(dirname "$0")/.."
out=$PWD/build/release
rm -rf "$out"
mkdir -p "$out/completions" "$out/units"
go build -o "$out/bin/prescient" ./cmd/prescient
GOBIN="$out/bin" go install "$CYCLONEDX_GOMOD"

# Only a commit's date, and no settings of the person who runs this.
date=$(git log -1 --format=%ct)
prescient() { env -i SOURCE_DATE_EPOCH="$date" XDG_CONFIG_HOME=/nonexistent "$out/bin/prescient" "$@"; }

prescient install man "$out/man"
mkdir "$out/man.gz"
for page in "$out"/man/*.1; do
    gzip -9n <"$page" >"$out/man.gz/${page##*/}.gz"
done
for shell in bash fish zsh; do
    prescient install completion $shell >"$out/completions/prescient.$shell"
done
prescient install systemd --binary /usr/bin/prescient --width 15m --write "$out/units" >&2
prescient install systemd --binary /usr/bin/prescient --width 15m --daemon --write "$out/units" >&2
(cd deploy/test && go run ./licenses ../..) >"$out/third-party-licenses.txt"
