#!/usr/bin/env bash
# Sets up and runs on this machine: bash launch/local.sh [FLAGS]
# Without flags: the quick start. With flags: those, and nothing else.
# shellcheck source=launch/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
install requirements.txt
[ $# -gt 0 ] || set -- --config=configs/quickstart.py
exec .venv/bin/python -m neg_contrast.main "$@"
