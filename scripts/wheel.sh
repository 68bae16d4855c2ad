#!/usr/bin/env bash
# Builds the wheel into dist/ and installs it into a fresh environment, to see that it imports and that its scripts start.
#
# One abi3 wheel serves every Python from 3.10 on. zig links it against glibc 2.28, whatever the builder's glibc is; the C++ shim is still
# compiled by g++, because LLVM's archives were built with libstdc++ and zig would take its own libc++.
set -euo pipefail
cd "$(dirname "$0")/.."
VENV=$(realpath "${DISC_VENV:-.venv}")
export VIRTUAL_ENV=$VENV PATH=$VENV/bin:$PATH:$PWD/.tools/bin
export CXX=g++ CXX_x86_64_unknown_linux_gnu=g++
# Messages of internal errors name source files: without the folders of this machine.
export RUSTFLAGS="--remap-path-prefix=$PWD=disc --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo --remap-path-prefix=$HOME=home"

step() { scripts/step.sh run "$@"; }

step "licences" cargo xtask licenses
rm -f dist/disc_compiler-*.whl
step "wheel" maturin build --release --zig --compatibility manylinux_2_28 --features old-glibc --out dist

wheels=(dist/disc_compiler-*.whl)
[ ${#wheels[@]} -eq 1 ] || { echo "one wheel was expected in dist/: ${wheels[*]}" >&2; exit 1; }
# The tags of a wheel say nothing about undefined C++ symbols: only an import finds them.
check=target/wheel-check
step "environment" uv venv --quiet --clear --python "$VENV/bin/python" "$check"
step "install" uv pip install --quiet --python "$check/bin/python" "${wheels[0]}"
# Not from the root of the repository: `import disc` must find the wheel.
cd "$check"
step() { ../../scripts/step.sh run "$@"; }
step "import" bin/python -c 'import disc, disc._disc; print("disc", disc.__version__)'
step "disc --help" bin/disc --help
step "disc-opt --help" bin/disc-opt --help
printf '%s (%d MB)\n' "${wheels[0]}" "$(($(stat -c %s "../../${wheels[0]}") / 1000000))"
