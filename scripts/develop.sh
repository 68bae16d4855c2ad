#!/usr/bin/env bash
# Builds the Python extension with cargo profile `fast` and makes `import disc` in the virtual environment find it.
#
# Not for a release: scripts/wheel.sh builds that.
set -euo pipefail
cd "$(dirname "$0")/.."
VENV=$(realpath "${DISC_VENV:-.venv}")
export VIRTUAL_ENV=$VENV PATH=$VENV/bin:$PATH:$PWD/.tools/bin
exec maturin develop --uv --profile fast "$@"
