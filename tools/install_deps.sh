#!/usr/bin/env bash
# Installs the Debian packages that building and testing Muster needs; quick when they are there.
# Usage: tools/install_deps.sh build|test|lint …
set -euo pipefail

build=(g++ cmake ninja-build ccache mold pkg-config make npm
       libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
       libboost1.81-dev libsqlite3-dev libssl-dev libspdlog-dev libfmt-dev libcli11-dev
       libyaml-cpp-dev nlohmann-json3-dev prometheus-cpp-dev
       libhwy-dev libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev python3-venv)
test=(iproute2 sqlite3 procps)
lint=(clang-19 clang-tidy-19 clang-format-19 libclang-rt-19-dev)

wanted=()
for group in "$@"; do
  declare -n packages=$group
  wanted+=("${packages[@]}")
done

missing=()
for package in "${wanted[@]}"; do
  # npm comes with many Node.js installations that Debian knows nothing of.
  if [ "$package" = npm ] && command -v npm >/dev/null; then continue; fi
  if [ "$package" = python3-venv ] && python3 -c 'import ensurepip' 2>/dev/null; then continue; fi
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "Installing ${#missing[@]} Debian packages: ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "Run as root or install sudo: these packages are missing." >&2; exit 1; }
  as_root=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
# A machine may have an index from the day its image was made: refresh only when it does not do.
"${as_root[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null 2>&1 || {
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}"
}
