#!/usr/bin/env bash
# Sets up and checks everything: lint, types, tests. bash launch/test.sh [PATHS]
# Tests start many programs: none compiles again what another has imported.
unset PYTHONDONTWRITEBYTECODE
# shellcheck source=launch/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
install requirements.txt tests/requirements.txt
.venv/bin/ruff check .
.venv/bin/shellcheck --external-sources launch/*.sh launch/tpu/*.sh
.venv/bin/mypy &  # Tests leave some of the cores' time.
types=$!
.venv/bin/python -m pytest -n auto --dist worksteal "$@"
wait "$types"
