"""Makes a job's Python environment: install_packages.py ENVIRONMENT FILE...

Run by the image's own interpreter. The environment sees that interpreter's packages, also when it
is a virtual environment itself, and gets the job's on top. The first replica to come makes it, the
others wait; the same job on the same machine finds it ready. What goes wrong is told in one sentence
on descriptor 3.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile

READY = ".muster-ready"


def fail(message):
    with os.fdopen(3, "w") as status:
        status.write(message)
    sys.exit(1)


def names(files):
    return ", ".join(os.path.basename(file) for file in files)


def make_environment(directory):
    shutil.rmtree(directory, ignore_errors=True)
    command = [sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", directory]
    made = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    sys.stderr.write(made.stderr)
    if made.returncode != 0:
        reason = (made.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        fail(f"{sys.executable} cannot make a virtual environment for the job's Python packages: {reason}")
    python = os.path.join(directory, "bin", "python")
    paths = sysconfig.get_paths()
    parents = list(dict.fromkeys([paths["purelib"], paths["platlib"]]))
    own = subprocess.check_output(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True).strip()
    # addsitedir, so that the parent's own .pth files (editable installs) count too.
    with open(os.path.join(own, "_muster_parent.pth"), "w") as pth:
        for parent in parents:
            pth.write(f"import site; site.addsitedir({parent!r})\n")
    return python


def has(python, module):
    return subprocess.run([python, "-c", f"import {module}"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


def ensure_pip(python):
    if has(python, "pip"):
        return
    if has(python, "ensurepip"):
        subprocess.run([python, "-m", "ensurepip", "--default-pip"])
    if not has(python, "pip"):
        fail(f"{sys.executable} has no pip, which the job's Python packages need: install it with "
             f"'{sys.executable} -m ensurepip' or as the system's package python3-pip")


def can_build(python):
    """Whether setuptools makes wheels here: by itself since 70.1, before with the package wheel."""
    if not has(python, "setuptools"):
        return False
    return has(python, "wheel") or has(python, "setuptools.command.bdist_wheel")


def is_plain_sdist(file):
    """A source package that only says setup.py: it builds with the setuptools that are there."""
    if not tarfile.is_tarfile(file):
        return False
    with tarfile.open(file) as archive:
        tops = {name.split("/", 1)[-1] for name in archive.getnames() if name.count("/") <= 1}
    return "setup.py" in tops and "pyproject.toml" not in tops


def install(python, files):
    command = [python, "-m", "pip", "install", "--no-input", "--disable-pip-version-check",
               "--no-warn-script-location", "--progress-bar", "off"]
    # Building apart from the environment would fetch setuptools anew: slow, and impossible offline.
    plain = [file for file in files if is_plain_sdist(file)]
    if plain and len(plain) == len(files) and can_build(python):
        command.append("--no-build-isolation")
    process = subprocess.Popen(command + files, stderr=subprocess.PIPE, text=True, errors="replace")
    errors = []
    for line in process.stderr:
        sys.stderr.write(line)
        sys.stderr.flush()
        # pip's own errors, and those of the build tools that it shows indented.
        head, colon, rest = line.strip().partition(":")
        if colon and head.lower() == "error" and rest.strip() not in errors:
            errors.append(rest.strip())
    if process.wait() != 0:
        reason = "; ".join(errors)[:1000] or f"pip ended with status {process.returncode}"
        fail(f"the Python package {names(files)} could not be installed: {reason}")


def main():
    directory, files = sys.argv[1], sys.argv[2:]
    for file in files:
        if not os.path.isfile(file):
            fail(f"the Python package {file} does not exist")
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    with open(directory + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ready = os.path.join(directory, READY)
        wanted = json.dumps([sys.executable] + files)
        if os.path.exists(ready) and open(ready).read() == wanted:
            return
        try:
            python = make_environment(directory)
            ensure_pip(python)
            install(python, files)
            with open(ready, "w") as marker:
                marker.write(wanted)
        except OSError as error:
            fail(f"the Python package {names(files)} could not be installed: {error}")


main()
