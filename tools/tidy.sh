#!/usr/bin/env bash
# clang-tidy over Muster's own sources. Usage: tools/tidy.sh BUILD_DIRECTORY [FILE…]
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1; shift
files=("$@")
[ ${#files[@]} -gt 0 ] || mapfile -t files < <(git ls-files 'src/*.cc' 'apps/*.cc')
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy-19 -p "$build" --quiet --warnings-as-errors='*'
