#!/bin/sh
# Makes a virtual environment below build/, or brings it up to date:
#
#   tools/venv.sh demo   build/venv: TensorFlow and scikit-learn, for the examples
#   tools/venv.sh test   the same, with PyTorch, pytest and the official client
#   tools/venv.sh ray    build/venv-ray: the peer in the benches
#
# A stamp in the environment holds the requirements it was made from, so a second run is instant.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
tools=$root/tools
build=$root/build
python=${PYTHON:-python3}

case "${1:-}" in
  demo | test) venv=$build/venv constraints=constraints.txt ;;
  ray) venv=$build/venv-ray constraints=constraints-ray.txt ;;
  *) echo "usage: tools/venv.sh demo|test|ray" >&2; exit 2 ;;
esac

mkdir -p "$build"
exec 9>"$venv.lock"
flock 9

make_venv() {
  [ -x "$venv/bin/python" ] && return
  "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || {
    echo "tools/venv.sh: TensorFlow needs Python 3.11 to 3.13; $python is $("$python" -V)." >&2
    echo "Name another one: PYTHON=python3.11 make demo" >&2
    exit 1
  }
  echo "Making $venv"
  rm -rf "$venv"
  "$python" -m venv "$venv"
}

# install NAME WHAT FILE...: pip's arguments are the files, in order, one pip run each.
install() {
  name=$1 what=$2
  shift 2
  make_venv
  stamp=$venv/.requirements-$name
  for file in "$@" "$constraints"; do cat "$tools/$file"; done >"$venv/.wanted"
  if cmp -s "$venv/.wanted" "$stamp"; then return; fi
  echo "Installing $what into $venv"
  begin=$(date +%s)
  log=$venv/pip-$name.log
  : >"$log"
  for file in "$@"; do
    case $file in *-no-deps.txt) options=--no-deps ;; *) options= ;; esac
    status=$venv/.status
    # The names as they come; everything else goes to the log.
    {
      "$venv/bin/python" -m pip install --disable-pip-version-check --no-input $options \
        --constraint "$tools/$constraints" --requirement "$tools/$file" 2>&1
      echo $? >"$status"
    } | tee -a "$log" | awk '
      /^Collecting / { print "  " $2; fflush() }
      /^Installing collected/ { print "  unpacking " NF - 3 " packages"; fflush() }'
    if [ "$(cat "$status")" -ne 0 ]; then
      tail -n 20 "$log" >&2
      echo "tools/venv.sh: pip failed; all it said is in $log" >&2
      exit 1
    fi
  done
  mv "$venv/.wanted" "$stamp"
  echo "Installed in $(($(date +%s) - begin)) s"
}

case $1 in
  demo | test)
    install demo "TensorFlow and scikit-learn (1.8 GB, about half a minute)" \
      requirements-demo.txt requirements-demo-no-deps.txt
    ;;
esac
case $1 in
  test) install test "PyTorch, pytest and google-cloud-aiplatform" \
    requirements-torch.txt requirements-test.txt ;;
  ray) install ray "PyTorch and Ray (1.6 GB, about two minutes)" \
    requirements-torch.txt requirements-ray.txt ;;
esac
