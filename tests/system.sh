#!/usr/bin/env bash
# Makes sure that the programs named are there which the tests run and pip does not bring; on Debian and Ubuntu it installs them.
set -euo pipefail
declare -A package=(
  [redis-server]=redis-server [promtool]=prometheus
  [node]=nodejs [npm]=npm [prometheus]=prometheus [prometheus-alertmanager]=prometheus-alertmanager [chromium]=chromium
)

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
# Only the programs are wanted. Their services, which have the packages' names, start neither now (where systemd starts them the mask
# holds them, elsewhere the run level does) nor with the machine.
services() {
  if command -v systemctl >/dev/null; then "${as_root[@]}" systemctl --quiet "$1" "${missing[@]/%/.service}" 2>/dev/null || true; fi
}
services mask
DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
services unmask
services disable
