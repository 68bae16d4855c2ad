#!/usr/bin/env bash
# Runs the Python tests in the virtual environment. Arguments are pytest's.
set -euo pipefail
cd "$(dirname "$0")/.."
exec "${DISC_VENV:-.venv}/bin/python" -m pytest "$@"
