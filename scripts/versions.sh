#!/usr/bin/env bash
# Runs the suites of the front end on other versions of torch, each in an environment of its own.
#
# usage: scripts/versions.sh [-t TESTS] [VERSION]...     versions: 2.7.1, 2.9.1, 2.13.0 and the newest release if none is named; "newest"
#
# The extension of this checkout is tested (scripts/develop.sh builds it; its ABI is that of any Python from 3.10 on). An environment
# takes some gigabytes, in DISC_VERSIONS (default .venvs), and stays there. TESTS are files for pytest.
# Each run is a row of docs/guide/matrix.md.
#
# exit codes: 1 a suite failed, 2 usage
set -euo pipefail
cd "$(dirname "$0")/.."

TESTS="tests/torch/compile/test_torch_compile.py tests/torch/module/test_drop_in.py tests/torch/module/test_written_inputs.py"
TESTS+=" tests/torch/capture/test_capture.py tests/torch/capture/test_partition.py tests/torch/lowering/test_torch_rows.py"
HOME_OF_VERSIONS=${DISC_VERSIONS:-.venvs}
UV=$(command -v uv || echo .tools/bin/uv)

while getopts t: option; do
    case $option in
        t) TESTS=$OPTARG ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- 2.7.1 2.9.1 2.13.0 newest

installed() {
    local version=$1 home=$2 torch=torch
    [ "$version" = newest ] || torch="torch==$version"
    [ "$version" != newest ] && [ -f "$home/.ready" ] && return
    printf '==> installing %s into %s\n' "$torch" "$home" >&2
    "$UV" venv --quiet --allow-existing "$home"
    # shellcheck disable=SC2046
    "$UV" pip install --quiet --upgrade --python "$home/bin/python" "$torch" $(grep -v -e '^#' -e '^torch' requirements/test.txt)
    touch "$home/.ready"
}

# Makes `import disc` and its entry points find this checkout, as scripts/develop.sh did in the virtual environment.
linked() {
    local site
    site=$("$1/bin/python" -c 'import site; print(site.getsitepackages()[0])')
    cp -r "${DISC_VENV:-.venv}"/lib/python3*/site-packages/disc_compiler{.pth,-*.dist-info} "$site"
}

failed=0
for version in "$@"; do
    home=$HOME_OF_VERSIONS/torch-$version
    installed "$version" "$home"
    linked "$home"
    found=$("$home/bin/python" -c 'import torch; print(torch.__version__)')
    log=$home/results.txt
    printf '==> torch %s\n' "$found" >&2
    # shellcheck disable=SC2086
    "$home/bin/python" -m pytest -n 2 -q -p no:cacheprovider --junitxml "$home/results.xml" $TESTS >"$log" 2>&1 || failed=1
    printf 'torch %s: %s\n' "$found" "$(tail -n 1 "$log")"
    grep '^FAILED' "$log" || true
    "$home/bin/python" scripts/matrix.py "$home/bin/python" "$home/results.xml"
done
exit $failed
