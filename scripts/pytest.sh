#!/usr/bin/env bash
# Runs the Python tests in the virtual environment, two at a time. Arguments are pytest's (-n 0: one at a time).
set -euo pipefail
cd "$(dirname "$0")/.."
exec "${DISC_VENV:-.venv}/bin/python" -m pytest -n 2 "$@"
