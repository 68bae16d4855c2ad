#!/usr/bin/env bash
# Installs what the make targets need and is missing: Debian packages, a virtual environment, Python requirements.
#
# usage: scripts/setup.sh [GROUP]...     groups: dev, test, wheel, bench, docs, examples, peer (one requirements/GROUP.txt each); default: dev test
#
# Versions are those of requirements/lock.txt. Safe to repeat: a stamp per requirement file makes the second run instant. Apart from Debian packages, everything is written
# into the repository: the virtual environment (DISC_VENV, default .venv) and .tools/ (uv, where the machine has none).
#
# exit codes: 2 usage, 3 a system package is missing, 4 no usable Python, 5 a Python package cannot be installed, 6 no usable Rust
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=${DISC_VENV:-.venv}
case $VENV in /*) ;; *) VENV=$ROOT/$VENV ;; esac
TOOLS=$ROOT/.tools
STAMPS=$VENV/.disc-setup
LLVM_MAJOR=22
RUST_MINOR=95

export UV_PYTHON_DOWNLOADS=never UV_NO_CONFIG=1

say() { printf '[setup %3ds] %s\n' "$SECONDS" "$*" >&2; }
fail() {
    local code=$1
    shift
    printf '[setup %3ds] error: %s\n' "$SECONDS" "$1" >&2
    shift
    [ $# -eq 0 ] || printf '             %s\n' "$@" >&2
    exit "$code"
}

# --- Rust ---------------------------------------------------------------------------------------------------------------------

check_rust() {
    command -v cargo >/dev/null && command -v rustc >/dev/null ||
        fail 6 "cargo is not on PATH" "install Rust 1.$RUST_MINOR or newer with rustup, then run this again"
    local version minor
    version=$(rustc --version | cut -d' ' -f2)
    minor=$(cut -d. -f2 <<<"$version")
    [ "${version%%.*}" -gt 1 ] || [ "$minor" -ge $RUST_MINOR ] ||
        fail 6 "Rust $version is too old, 1.$RUST_MINOR is needed" "run: rustup update stable"
}

# --- Debian packages ----------------------------------------------------------------------------------------------------------

# One line per package: the package, then a file that it installs (a glob).
system_packages() {
    local lib="/usr/lib/llvm-$LLVM_MAJOR"
    cat <<PACKAGES
llvm-$LLVM_MAJOR-dev $lib/bin/llvm-config
liblld-$LLVM_MAJOR-dev $lib/lib/liblldELF.a
libpolly-$LLVM_MAJOR-dev $lib/lib/libPolly.a
libzstd-dev /usr/lib/*/libzstd.a
zlib1g-dev /usr/lib/*/libz.a
g++ /usr/bin/g++
PACKAGES
}

missing_system_packages() {
    local package file
    while read -r package file; do
        # LLVM_SYS_221_PREFIX names another LLVM, with lld in it: then only the other packages are looked for.
        case $package in *"-$LLVM_MAJOR-dev") [ -z "${LLVM_SYS_221_PREFIX:-}" ] || continue ;; esac
        compgen -G "$file" >/dev/null || echo "$package"
    done < <(system_packages)
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        return 1
    fi
}

install_system_packages() {
    local missing
    mapfile -t missing < <(missing_system_packages)
    [ ${#missing[@]} -gt 0 ] || return 0
    local by_hand="as root: apt-get update && apt-get install ${missing[*]}"
    command -v apt-get >/dev/null || fail 3 "missing: ${missing[*]}" \
        "this machine has no apt-get; install LLVM $LLVM_MAJOR with lld and Polly as static libraries, zstd, zlib and g++" \
        "(LLVM_SYS_221_PREFIX names an LLVM that lies elsewhere)"
    [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null ||
        fail 3 "missing: ${missing[*]}" "they need root, and there is no sudo; $by_hand"
    say "installing Debian packages: ${missing[*]} (a few minutes; LLVM is about 1 GB)"
    local log
    log=$(mktemp)
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq >"$log" 2>&1 || say "apt-get update failed, trying with the known lists"
    if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
        tail -n 15 "$log" >&2
        fail 3 "apt-get could not install ${missing[*]}" "the whole log: $log" \
            "LLVM $LLVM_MAJOR is in Debian 12 (security updates) and newer, and in LLVM's own Debian repository"
    fi
    rm -f "$log"
    mapfile -t missing < <(missing_system_packages)
    [ ${#missing[@]} -eq 0 ] || fail 3 "apt-get reported success, but files of these packages are missing: ${missing[*]}"
    say "Debian packages are installed"
}

# oneDNN, which tests compare with and nothing needs: its absence is no failure, and is tried once. Its package is named after its major version.
install_library() {
    [ ! -e "$STAMPS/library" ] || return 0
    mkdir -p "$STAMPS"
    touch "$STAMPS/library"
    if compgen -G "/usr/lib/*/libdnnl.so.[0-9]" >/dev/null || ! command -v apt-get >/dev/null; then return 0; fi
    local package
    for package in libdnnl3 libdnnl2; do
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1 && break
    done
    compgen -G "/usr/lib/*/libdnnl.so.[0-9]" >/dev/null || say "oneDNN is not there: tests of Options(library=) are skipped"
}

# An emulator of AArch64 with a C compiler and library for it: tests run code for AArch64 with them, and nothing else needs them. Their absence is no
# failure, and is tried once.
install_emulator() {
    [ ! -e "$STAMPS/emulator" ] || return 0
    mkdir -p "$STAMPS"
    touch "$STAMPS/emulator"
    local found="command -v qemu-aarch64 && command -v aarch64-linux-gnu-gcc && test -e /usr/aarch64-linux-gnu/lib/libc.so.6"
    if eval "$found" >/dev/null; then return 0; fi
    if command -v apt-get >/dev/null; then
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross >/dev/null 2>&1 || true
    fi
    eval "$found" >/dev/null || say "qemu-aarch64 with a C compiler is not there: code for AArch64 is not run in tests" \
        "(to try again: rm $STAMPS/emulator)"
}

# CUDA's assemblers and its disassembler, which tests of PTX use and nothing else needs; they want no GPU. Their absence is no failure, and is tried
# once for each list of versions. They go into a folder of their own: a package of the environment may bring along other versions.
install_nvidia_tools() {
    local file=$ROOT/requirements/nvidia.txt folder=$VENV/nvidia-tools stamp
    stamp=$STAMPS/nvidia-$(sha256sum "$file" | cut -c1-16)
    [ ! -e "$stamp" ] || return 0
    say "installing requirements/nvidia.txt: CUDA's assemblers ptxas 13 and 12, and nvdisasm (about 350 MB)"
    rm -rf "$folder" "$STAMPS/nvidia"-*
    if "$UV" pip install --quiet --python "$VENV/bin/python" --no-deps --target "$folder" --requirement "$file"; then
        say "CUDA's assemblers are installed"
    else
        rm -rf "$folder"
        say "CUDA's assemblers are not there: PTX is not assembled in tests" "(to try again: rm $stamp)"
    fi
    mkdir -p "$STAMPS"
    touch "$stamp"
}

# --- Python -------------------------------------------------------------------------------------------------------------------

find_python() {
    local candidate
    for candidate in ${DISC_PYTHON:-python3.11 python3.12 python3.13 python3}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return
        fi
    done
    return 1
}

no_python() {
    fail 4 "no Python 3.11 or newer is on PATH" "Debian: apt-get install python3 python3-pip; or set DISC_PYTHON" \
        "(the wheel works from Python 3.10 on, the tools that test it need 3.11)"
}

# uv from PATH; else pip puts it into .tools/ (pip's --target leaves the system's Python alone, as PEP 668 asks).
find_uv() {
    local python
    if command -v uv >/dev/null && uv --version >/dev/null 2>&1; then
        UV=$(command -v uv)
        return
    fi
    UV=$TOOLS/bin/uv
    [ ! -x "$UV" ] || return 0
    python=$(find_python) || no_python
    say "installing uv into ${TOOLS#"$ROOT"/}/"
    "$python" -m pip --version >/dev/null 2>&1 ||
        fail 5 "neither uv nor pip is there to install Python packages" "install one of them (Debian: python3-pip)"
    "$python" -m pip install --quiet --disable-pip-version-check --target "$TOOLS" --upgrade uv ||
        fail 5 "pip could not install uv" "is a package index reachable?"
}

make_venv() {
    if "$VENV/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then return; fi
    local python
    python=$(find_python) || no_python
    say "making the virtual environment ${VENV#"$ROOT"/} with $("$python" --version)"
    "$UV" venv --quiet --clear --python "$python" "$VENV" || fail 4 "uv could not make a virtual environment at $VENV"
}

install_group() {
    local group=$1 file=$ROOT/requirements/$1.txt lock=$ROOT/requirements/lock.txt stamp size=""
    case $group in dev | test | wheel | bench | docs | examples | peer) ;; *) fail 2 "no requirement group \`$group\`" "groups: dev test wheel bench docs examples peer" ;; esac
    stamp=$STAMPS/$group-$(cat "$file" "$lock" | sha256sum | cut -c1-16)
    [ ! -e "$stamp" ] || return 0
    [ "$group" != test ] || size=" (PyTorch and its libraries: about 3 GB)"
    say "installing requirements/$group.txt$size"
    "$UV" pip install --python "$VENV/bin/python" --requirement "$file" --constraint "$lock" ||
        fail 5 "the packages of requirements/$group.txt could not be installed" "uv's message above says which; is a package index reachable?" \
            "if it speaks of a conflict with lock.txt: run scripts/lock.sh"
    mkdir -p "$STAMPS"
    rm -f "$STAMPS/$group"-*
    touch "$stamp"
    say "requirements/$group.txt is installed"
}

main() {
    [ $# -gt 0 ] || set -- dev test
    mkdir -p "$(dirname "$VENV")"
    # Two make targets at once would make one environment twice.
    exec 9>"$VENV.lock"
    flock 9 2>/dev/null || true
    check_rust
    install_system_packages
    find_uv
    make_venv
    local group
    for group in "$@"; do
        [ "$group" != test ] || install_library
        [ "$group" != test ] || install_emulator
        install_group "$group"
        [ "$group" != test ] || install_nvidia_tools
    done
    [ "$SECONDS" -lt 2 ] || say "ready"
}

main "$@"
