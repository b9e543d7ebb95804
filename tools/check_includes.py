#!/usr/bin/env python3
"""Holds every #include of Muster's sources against the module graph declared in CMake.

The graph is what the DEPENDS lists of muster_module() say. A module may include its own headers and
those of modules it depends on, directly or through another. Also checked: no cycles; the pure
modules include no header for threads, sockets or files, and ask no clock; foo.cc with a foo.h beside
it includes that one first. Tests, benchmarks, fuzzers and fakes may include and ask all.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
PURE = {"job", "collective_types", "collective_plan", "collective_kernels", "collective_wire",
        "collective_round"}
IMPURE_HEADERS = re.compile(
    r"<(thread|mutex|condition_variable|future|atomic|fstream|filesystem|unistd\.h|fcntl\.h|"
    r"sys/.*|netinet/.*|poll\.h|boost/asio.*|sqlite3\.h)>")
CLOCK = re.compile(r"::now\(|\b(clock_gettime|gettimeofday)\(|\bSystemClock\b")
TEST_NAME = re.compile(r".*_(test|bench|fuzz)\.cc|(fake|test)_.*\.h|.*_fixture\.h")


def declared_modules():
    """module name -> (folder, set of direct dependencies)"""
    modules = {}
    for cmake in sorted(SRC.rglob("CMakeLists.txt")):
        text = re.sub(r"#.*", "", cmake.read_text())
        for call in re.findall(r"muster_module\(([^)]*)\)", text):
            words = call.split()
            depends, collecting = set(), False
            for word in words[1:]:
                if word.isupper() and re.fullmatch(r"[A-Z_]+", word):
                    collecting = word in ("DEPENDS",)
                elif collecting:
                    depends.add(word)
            modules[words[0]] = (cmake.parent, depends - {"protos"})
    return modules


def closure(modules, name, path=()):
    if name in path:
        sys.exit("cycle among modules: " + " -> ".join(path + (name,)))
    reached = set()
    for dependency in modules[name][1]:
        if dependency not in modules:
            sys.exit(f"module {name} DEPENDS on {dependency}, which no muster_module() declares")
        reached |= {dependency} | closure(modules, dependency, path + (name,))
    return reached


def module_of(modules, path):
    owners = [(len(folder.parts), name) for name, (folder, _) in modules.items()
              if path.is_relative_to(folder)]
    return max(owners)[1] if owners else None


def check_file(modules, reachable, path, problems):
    module = module_of(modules, path)
    if module is None:
        problems.append(f"{path.relative_to(ROOT)}: belongs to no module")
        return
    is_test = TEST_NAME.fullmatch(path.name)
    lines = path.read_text().splitlines()
    own = path.with_suffix(".h")
    if path.suffix == ".cc" and own.exists():
        includes = [line.split()[1] for line in lines if line.startswith("#include ")]
        wanted = f'"{own.relative_to(SRC)}"'
        if not includes or includes[0] != wanted:
            problems.append(f"{path.relative_to(ROOT)}: does not include {wanted} first")
    for number, line in enumerate(lines, 1):
        where = f"{path.relative_to(ROOT)}:{number}"
        if module in PURE and not is_test and IMPURE_HEADERS.search(line):
            problems.append(f"{where}: {module} is pure, but includes {line.split()[1]}")
        if module in PURE and not is_test and CLOCK.search(line.split("//")[0]):
            problems.append(f"{where}: {module} is pure, but asks a clock")
        include = re.match(r'#include "([^"]+)"', line)
        if not include:
            continue
        target = SRC / include[1]
        if not target.exists():
            problems.append(f"{where}: no such header below src/: {include[1]}")
            continue
        other = module_of(modules, target)
        if other != module and other not in reachable[module] and not is_test:
            problems.append(f"{where}: {module} may not include {include[1]}: "
                            f"{other} is not in its DEPENDS")


def main():
    modules = declared_modules()
    reachable = {name: closure(modules, name) for name in modules}
    problems = []
    files = [path for ext in ("*.h", "*.cc") for path in sorted(SRC.rglob(ext))]
    for path in files:
        check_file(modules, reachable, path, problems)
    print("\n".join(problems) or f"includes: {len(files)} files, {len(modules)} modules, "
          "all arrows as declared")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
