#!/usr/bin/env bash
# Fails if a C++ file is not formatted; `make format` mends it.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files '*.cc' '*.h' | xargs clang-format-19 --dry-run --Werror
