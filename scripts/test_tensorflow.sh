#!/usr/bin/env bash
# Runs tests/tf in an environment of its own, with one version of TensorFlow (DISC_TENSORFLOW) and without torch.
#
# The environment takes a gigabyte, in DISC_VERSIONS (default .venvs), and stays there. Arguments are pytest's.
set -euo pipefail
cd "$(dirname "$0")/.."

VERSION=${DISC_TENSORFLOW:-2.21.0}
HOME_OF_VERSION=${DISC_VERSIONS:-.venvs}/tensorflow-$VERSION
UV=$(command -v uv || echo .tools/bin/uv)

if [ ! -f "$HOME_OF_VERSION/.ready" ]; then
    printf '==> installing tensorflow-cpu==%s into %s\n' "$VERSION" "$HOME_OF_VERSION" >&2
    "$UV" venv --quiet --allow-existing "$HOME_OF_VERSION"
    "$UV" pip install --quiet --python "$HOME_OF_VERSION/bin/python" "tensorflow-cpu==$VERSION" pytest pytest-timeout pytest-xdist
    touch "$HOME_OF_VERSION/.ready"
fi
export TF_CPP_MIN_LOG_LEVEL=3 CUDA_VISIBLE_DEVICES=
exec "$HOME_OF_VERSION/bin/python" -m pytest --confcutdir=tests/tf -n 2 "$@" tests/tf
