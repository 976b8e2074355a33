#!/usr/bin/env bash
# Makes sure that the programs named are there which the tests run and pip does not bring; on Debian and Ubuntu it installs them.
set -euo pipefail
declare -A package=([redis-server]=redis-server [node]=nodejs [npm]=npm)

missing=()
for program in "$@"; do
  command -v "$program" >/dev/null || missing+=("${package[$program]}")
done
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi
if ! command -v apt-get >/dev/null; then
  echo "tests need ${missing[*]}: install them with your system's package manager" >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
"${as_root[@]}" apt-get update -qq
# Only the program is wanted: no service of it is to be started.
DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
