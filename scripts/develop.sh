#!/usr/bin/env bash
# Builds the Python extension with cargo profile `fast` and makes `import disc` in the virtual environment find it.
#
# Not for a release: scripts/wheel.sh builds that.
set -euo pipefail
cd "$(dirname "$0")/.."
VENV=$(realpath "${DISC_VENV:-.venv}")
export VIRTUAL_ENV=$VENV PATH=$VENV/bin:$PATH:$PWD/.tools/bin
# The distribution `disc` of older checkouts registers the same commands and the same backend.
if compgen -G "$VENV/lib/python3*/site-packages/disc-0*.dist-info" >/dev/null; then uv pip uninstall --quiet disc; fi
exec maturin develop --uv --profile fast "$@"
