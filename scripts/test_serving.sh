#!/usr/bin/env bash
# Tests the Ray Serve example in an environment that has Ray, NumPy and disc, and no framework.
set -euo pipefail
cd "$(dirname "$0")/.."
HOME_OF_RAY=${DISC_RAY:-.venvs/ray}
UV=$(command -v uv || echo .tools/bin/uv)

if [ ! -f "$HOME_OF_RAY/.ready" ]; then
    printf '==> installing ray[serve] into %s\n' "$HOME_OF_RAY" >&2
    "$UV" venv --quiet --allow-existing --python "${DISC_VENV:-.venv}/bin/python" "$HOME_OF_RAY"
    "$UV" pip install --quiet --python "$HOME_OF_RAY/bin/python" "ray[serve]" numpy pytest
    touch "$HOME_OF_RAY/.ready"
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${DISC_VENV:-.venv}/bin/python" examples/serving/make_package.py "$folder/sentence.discpkg"
# The tests of pytest's root need torch, so this one has a root of its own.
DISC_TEST_PACKAGE=$folder/sentence.discpkg PYTHONPATH=python "$HOME_OF_RAY/bin/python" -m pytest -q -c /dev/null \
    -p no:cacheprovider examples/serving/test_ray_serve.py
