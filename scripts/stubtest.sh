#!/usr/bin/env bash
# Compares python/disc/_disc.pyi with the extension that scripts/develop.sh built.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHONPATH=python exec "${DISC_VENV:-.venv}/bin/python" -m mypy.stubtest --mypy-config-file pyproject.toml disc._disc
