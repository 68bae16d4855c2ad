#!/usr/bin/env bash
# Builds the wheel into dist/ and installs it into a fresh environment, to see that it imports and that its scripts start.
#
# usage: scripts/wheel.sh [x86_64 | aarch64]      default: x86_64; exit code 3: no cross compiler
#
# One abi3 wheel serves every Python from 3.10 on. zig links it against glibc 2.28, whatever the builder's glibc is; the C++ shim is still
# compiled by g++, because LLVM's archives were built with libstdc++ and zig would take its own libc++.
set -euo pipefail
cd "$(dirname "$0")/.."
ARCH=${1:-x86_64}
TARGET=$ARCH-unknown-linux-gnu
VENV=$(realpath "${DISC_VENV:-.venv}")
export VIRTUAL_ENV=$VENV PATH=$VENV/bin:$PATH:$PWD/.tools/bin
# Messages of internal errors name source files: without the folders of this machine.
export RUSTFLAGS="--remap-path-prefix=$PWD=disc --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo --remap-path-prefix=$HOME=home"

ROOT=$PWD
step() { "$ROOT/scripts/step.sh" run "$@"; }
arguments=()

step "licences" cargo xtask licenses
case $ARCH in
    x86_64) export CXX=g++ CXX_x86_64_unknown_linux_gnu=g++ ;;
    aarch64)
        command -v aarch64-linux-gnu-g++ >/dev/null || {
            echo "error: aarch64-linux-gnu-g++ is missing (Debian: g++-aarch64-linux-gnu)" >&2
            exit 3
        }
        step "LLVM for AArch64" scripts/arm64.sh unpack
        step "Rust for AArch64" scripts/arm64.sh rustc
        RUSTC=$(scripts/arm64.sh rustc)
        export RUSTC
        export LLVM_SYS_221_PREFIX=$PWD/target/arm64/tree/usr/lib/llvm-22
        export CXX_aarch64_unknown_linux_gnu=aarch64-linux-gnu-g++
        arguments=(--target "$TARGET")
        ;;
    *)
        echo "usage: scripts/wheel.sh [x86_64 | aarch64]" >&2
        exit 2
        ;;
esac

rm -f dist/disc_compiler-*"_$ARCH.whl"
step "wheel" maturin build --release --zig --compatibility manylinux_2_28 --features old-glibc --out dist "${arguments[@]}"

wheels=(dist/disc_compiler-*"_$ARCH.whl")
[ ${#wheels[@]} -eq 1 ] || { echo "one wheel was expected in dist/: ${wheels[*]}" >&2; exit 1; }
# The tags of a wheel say nothing about undefined C++ symbols: only an import finds them.
check=target/wheel-check
if [ "$ARCH" = x86_64 ]; then
    step "environment" uv venv --quiet --clear --python "$VENV/bin/python" "$check"
    step "install" uv pip install --quiet --python "$check/bin/python" "${wheels[0]}"
    # Not from the root of the repository: `import disc` must find the wheel.
    cd "$check"
    step "import" bin/python -c 'import disc, disc._disc; print("disc", disc.__version__)'
    step "disc --help" bin/disc --help
    step "disc-opt --help" bin/disc-opt --help
else
    rm -rf "$check-$ARCH"
    step "unpack" "$VENV/bin/python" -m zipfile -e "${wheels[0]}" "$check-$ARCH"
    step "symbols" scripts/arm64.sh symbols "$check-$ARCH/disc/_disc.abi3.so"
    step "import" scripts/arm64.sh import "$check-$ARCH/disc/_disc.abi3.so"
fi
printf '%s (%d MB)\n' "${wheels[0]}" "$(($(stat -c %s "$ROOT/${wheels[0]}") / 1000000))"
