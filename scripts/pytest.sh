#!/usr/bin/env bash
# Runs the Python tests in the virtual environment. Arguments are pytest's.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! compgen -G 'tests/**/test_*.py' >/dev/null && ! compgen -G 'tests/test_*.py' >/dev/null; then
    echo "there are no Python tests yet"
    exit 0
fi
exec "${DISC_VENV:-.venv}/bin/python" -m pytest "$@"
