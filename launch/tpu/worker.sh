#!/usr/bin/env bash
# What tpu.sh has every host of a TPU do, in the folder of the code:
# bash launch/tpu/worker.sh install | run FLAGS | state [FLAGS] | log | tail |
# stop. FLAGS are those of neg_contrast.main, and tell one run from another.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
verb=$1
shift
runs=~/neg_contrast_runs  # Of this host; a bucket has the workdirs.
id=$(printf '%s\0' "$@" | cksum | tr ' ' -)
folder=$runs/$id
mkdir -p "$runs"

# A run holds this lock as long as any of it lives, and no longer.
is_running() { ! flock --nonblock "$runs/lock" true; }

install_all() {
  if [ ! -x .venv/bin/python ]; then  # Ubuntu 22.04 has Python 3.10.
    PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install --quiet --user uv
    python3 -m uv venv --quiet --seed --python 3.11 .venv
  fi
  PYTHON=.venv/bin/python
  # shellcheck source=launch/setup.sh
  source launch/setup.sh
  install requirements.txt launch/requirements-gcs.txt \
    launch/tpu/requirements-tpu.txt
}

# The first host of the slice, as JAX reads it. JAX would find it by itself, and
# listen there at all addresses; it listens at one that it is given alone.
coordinator() {
  local hosts
  hosts=$(curl --silent --fail --max-time 10 --header 'Metadata-Flavor: Google' \
    http://metadata.google.internal/computeMetadata/v1/instance/attributes/worker-network-endpoints) ||
    return 0
  hosts=${hosts%%,*}
  [ -z "$hosts" ] || echo "${hosts##*:}:8482"  # HOST, or NAME:NUMBER:HOST.
}

state() {
  local last
  last=$(readlink "$runs/latest") || last=''
  if [ $# -gt 0 ] && [ "$last" != "$id" ]; then
    if is_running; then echo busy; else echo none; fi
  elif [ -z "$last" ]; then
    echo none
  elif is_running; then
    echo running
  elif [ ! -e "$runs/latest/status" ]; then
    echo killed
  else
    local status
    status=$(< "$runs/latest/status")
    if [ "$status" -eq 0 ]; then
      echo finished
    elif [ "$status" -gt 128 ]; then
      echo "killed (exit status $status)"
    else
      echo "failed (exit status $status)"
    fi
  fi
}

case $verb in
  install) install_all ;;
  run)
    if is_running; then
      echo 'a run is going on here; stop it first' >&2
      exit 1
    fi
    mkdir -p "$folder"
    rm -f "$folder/status"
    ln -sfn "$id" "$runs/latest"
    # A session of its own outlives the connection.
    setsid --fork flock --timeout 5 "$runs/lock" \
      bash launch/tpu/worker.sh go "$@" >> "$folder/log" 2>&1 < /dev/null
    until is_running || [ -e "$folder/status" ]; do sleep 0.1; done ;;
  go)
    ps -o pgid= -p $$ > "$folder/group"
    status=0 address=$(coordinator)
    [ -z "$address" ] || export JAX_COORDINATOR_ADDRESS=$address
    .venv/bin/python -m neg_contrast.main "$@" || status=$?
    echo "$status" > "$folder/status" ;;
  state) echo "run: $(state "$@")" ;;
  log) tail -n 20 "$runs/latest/log" ;;
  tail) tail -n 50 -F "$runs/latest/log" ;;
  stop)
    if is_running; then
      group=$(tr -d ' ' < "$runs/latest/group")
      kill -TERM -- "-$group"
      flock --timeout 60 "$runs/lock" true || kill -KILL -- "-$group"
    fi ;;
esac
