#!/usr/bin/env bash
# Makes what compose.yaml asks for and nobody else should know: .env with passwords, and secrets/ with tokens. Needs `fade`, or
# the image of that name. Touches nothing that is there.
set -euo pipefail
cd "$(dirname "$0")"
if [ -e .env ] || [ -e secrets ]; then
  echo "deploy/.env or deploy/secrets is there already; remove both to have all of it made anew" >&2
  exit 1
fi
if ! command -v fade >/dev/null; then
  fade() { docker run --rm fade "$@"; }
fi

entries=()
issue() { # NAME PROJECT ROLE: keeps the token's entry, and leaves the token itself in $token
  local printed
  printed=$(fade token "$1" --project "$2" --role "$3")
  token=${printed%%$'\n'*}
  entries+=("${printed#*$'\n'}")
}
password() { # 24 random bytes in hexadecimal, which may stand in a URL as it is
  head -c 24 /dev/urandom | od -An -v -tx1 | tr -d ' \n'
}

issue operator - admin
operator=$token
issue prometheus - read
prometheus=$token
issue trainer default write
trainer=$token
redis=$(password)
grafana=$(password)

# The users in containers read these files; nobody else on this machine gets into the folder.
umask 022
mkdir -m 700 secrets
echo "$operator" >secrets/operator_token
echo "$prometheus" >secrets/prometheus_token
echo "FADE_TOKEN=$trainer" >secrets/trainer.env
printf '{"tokens": [\n%s,\n%s,\n%s\n]}\n' "${entries[@]}" >secrets/tokens.json
umask 077
printf 'FADE_REDIS_PASSWORD=%s\nFADE_GRAFANA_PASSWORD=%s\n' "$redis" "$grafana" >.env
