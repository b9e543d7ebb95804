#!/usr/bin/env python3
"""The demo: trains an image classifier on a chief and two workers, on this machine.

Starts musterd on a free loopback port, submits the job, follows its merged log, checks what it
left, and says what came out. Everything is in build/demo, made afresh each time. `make demo` builds
and installs first, then runs this.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from datetime import datetime

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples/tensorflow/mwms_images.yaml"
BUCKET = "demo"
TERMINAL = ("JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED")
JOB_TIMEOUT_S = 300


class DemoError(Exception):
    """What went wrong, for the user."""


class Screen:
    """The log, line by line, and on a terminal a status line below it."""

    def __init__(self):
        self.is_terminal = sys.stdout.isatty()
        self.begin = time.monotonic()
        self.status = ""
        self.lock = threading.Lock()

    def line(self, text):
        with self.lock:
            self._erase()
            print(text)
            self._draw()

    def step(self, text):
        mark = "\033[1;34m==>\033[0m" if self.is_terminal else "==>"
        self.line(f"{mark} {text}")

    def set_status(self, text):
        with self.lock:
            self._erase()
            self.status = text
            self._draw()

    def _erase(self):
        if self.is_terminal and self.status:
            print("\r\033[K", end="")

    def _draw(self):
        if self.is_terminal and self.status:
            width = shutil.get_terminal_size().columns - 1
            print(f"{time.monotonic() - self.begin:5.1f} s  {self.status}"[:width], end="")
        sys.stdout.flush()


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build",
                        help="where bin/musterd is")
    parser.add_argument("--venv", type=pathlib.Path, default=ROOT / "build/venv",
                        help="the environment that the image stands for")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=10)
    return parser.parse_args()


def write_files(args, directory):
    """The configuration and the job; JSON is YAML too. Returns their paths."""
    config = {
        "network": "private",
        "grace_period": "3s",
        "images": [{
            "pattern": "us-docker.pkg.dev/vertex-ai/training/tf-*",
            "python": str(args.venv),
            # The replicas share this machine's cores, and TensorFlow talks a lot.
            "env": {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0",
                    "TF_NUM_INTRAOP_THREADS": "1"},
        }],
    }
    config_file = directory / "musterd.yaml"
    config_file.write_text(json.dumps(config, indent=2) + "\n")

    # The example's job, with the program where it lies and a bucket of the demo's own.
    job = EXAMPLE.read_text()
    job = job.replace("/gcs/your-bucket/", f"{EXAMPLE.parent}/").replace("your-bucket", BUCKET)
    job = job.replace("replicaCount: 2", f"replicaCount: {args.workers}")
    job = job.replace("--dataset=digits]", f"--dataset=digits, --epochs={args.epochs}]")
    job_file = directory / "job.yaml"
    job_file.write_text(job)
    return config_file, job_file


class Musterd:
    """The server, for as long as the context lasts."""

    def __init__(self, args, directory, config_file):
        self.data = directory / "data"
        self.log_file = directory / "musterd.log"
        self.command = [str(args.build_dir / "bin/musterd"), "--data-dir", str(self.data),
                        "--listen", "127.0.0.1:0", "--config", str(config_file)]

    def __enter__(self):
        with open(self.log_file, "wb") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, start_new_session=True)
        deadline = time.monotonic() + 15
        endpoint = self.data / "musterd.json"
        while not endpoint.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise DemoError(f"musterd did not start; it said:\n{self.log_file.read_text()}")
            time.sleep(0.01)
        self.address = json.loads(endpoint.read_text())["address"]
        return self

    def call(self, path, method="GET"):
        body = b"{}" if method == "POST" else None
        request = urllib.request.Request(f"http://{self.address}{path}", data=body, method=method,
                                         headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.load(response)

    def end_jobs(self):
        """Cancels what still runs, so that stopping the demo stops its job too."""
        jobs = "/v1/projects/muster/locations/us-central1/customJobs"
        deadline = time.monotonic() + 20
        active = [True]
        while active and time.monotonic() < deadline:
            active = [job["name"] for job in self.call(jobs).get("customJobs", [])
                      if job["state"] not in TERMINAL]
            for name in active:
                self.call(f"/v1/{name}:cancel", "POST")
            if active:
                time.sleep(0.1)

    def __exit__(self, error_type, error, trace):
        if error is not None and self.process.poll() is None:
            with contextlib.suppress(OSError, ValueError, KeyError):
                self.end_jobs()
        self.process.terminate()
        try:
            status = self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            status = "no end within 15 s"
        if error is None and status != 0:
            raise DemoError(f"musterd ended with {status}; its log is {self.log_file}")


def follow(screen, muster, address, job_file, epochs):
    """Submits the job and shows its log until it ends. Returns (exit code, lines)."""
    command = [str(muster), "--endpoint", address, "custom-jobs", "create", "--region",
               "us-central1", "--display-name", "digits", "--config", str(job_file), "--wait"]
    screen.step("muster " + " ".join(shlex.quote(word) for word in command[3:]))
    screen.set_status("submitted")
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace")
    lines = []

    def read():
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            screen.line("    " + lines[-1])
            epoch = re.search(r"epoch (\d+)/", line)
            if epoch:
                done = int(epoch[1])
                bar = ("#" * done + "." * (epochs - done)) if epochs <= 50 else ""
                screen.set_status(f"[{bar}] epoch {done} of {epochs}")
            elif "Waiting for training program" in line:
                screen.set_status("starting the replicas")
            elif "Job is running" in line:
                screen.set_status("running; TensorFlow is being loaded")
            elif "accuracy on held-out" in line:
                screen.set_status("saving the model")

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        deadline = time.monotonic() + JOB_TIMEOUT_S
        while reader.is_alive() and time.monotonic() < deadline:
            reader.join(0.5)
            screen.set_status(screen.status)  # the clock goes on
        if reader.is_alive():
            raise DemoError(f"the job did not end within {JOB_TIMEOUT_S} s")
        return process.wait(10), lines
    finally:
        screen.set_status("")
        if process.poll() is None:
            process.kill()
            process.wait()


def seconds_between(job, first, second):
    times = [datetime.fromisoformat(re.sub(r"(\.\d{1,6})\d*Z$|Z$", r"\1+00:00", job[key]))
             for key in (first, second)]
    return (times[1] - times[0]).total_seconds()


def processes_of(data_directory):
    """What still runs of the demo: every replica's environment names its job's files."""
    marker = os.fsencode(str(data_directory))
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                for file in ("environ", "cmdline"):
                    if marker in (entry / file).read_bytes():
                        found.append(int(entry.name))
                        break
    return found


def check(musterd, lines, code, workers, wall_s):
    """Everything that the demo promises. Returns the summary's rows."""
    jobs = musterd.call("/v1/projects/muster/locations/us-central1/customJobs")["customJobs"]
    if len(jobs) != 1:
        raise DemoError(f"{len(jobs)} jobs where one was submitted")
    job = jobs[0]
    view = musterd.call(f"/muster/v1/{job['name']}")
    if job["state"] != "JOB_STATE_SUCCEEDED":
        message = job.get("error", {}).get("message", "")
        raise DemoError(f"the job ended as {job['state']}: {message}")
    if code != 0:
        raise DemoError(f"the job succeeded, but `create --wait` exited with {code}")

    text = "\n".join(lines)
    accuracy = re.search(r"accuracy on held-out images: ([\d.]+)", text)
    if not accuracy or float(accuracy[1]) < 0.9:
        raise DemoError(f"accuracy: {accuracy[1] if accuracy else 'none was printed'}")

    model = pathlib.Path(view["modelDirectory"])
    if not (model / "saved_model.pb").is_file():
        raise DemoError(f"the chief left no model in {model}")
    size = sum(file.stat().st_size for file in model.rglob("*") if file.is_file())

    copies = re.findall(r"saved a copy to (\S+)", text)
    left = [copy for copy in copies if os.path.exists(copy)]
    if len(copies) != workers or left:
        raise DemoError(f"{len(copies)} of {workers} workers saved a copy; still there: {left}")

    return [
        ("state", job["state"].removeprefix("JOB_STATE_")),
        ("accuracy", f"{100 * float(accuracy[1]):.1f} % of the held-out images"),
        ("wall time", f"{wall_s:.1f} s, submission to the last line of the log"),
        ("all replicas up", f"{1000 * seconds_between(job, 'createTime', 'startTime'):.0f} ms "
                            f"after submission ({len(view['replicas'])} replicas)"),
        ("model", f"{display(model)}/ ({size / 1024:.0f} KB)"),
        ("others' copies", f"{len(copies)} in temporary directories, gone"),
        ("network", "private to the job" if view["network"] == "private" else "the host's"),
    ]


def display(path):
    """As short as it can be typed from here."""
    path = pathlib.Path(path)
    with contextlib.suppress(ValueError):
        return str(path.relative_to(pathlib.Path.cwd()))
    return str(path)


def run(args, screen):
    for needed, how in ((args.build_dir / "bin/musterd", "make build"),
                        (args.build_dir / "bin/muster-agent", "make build"),
                        (args.build_dir / "bin/muster", "make build"),
                        (args.venv / "bin/python", "tools/venv.sh demo")):
        if not needed.exists():
            raise DemoError(f"{needed} is missing: run `{how}`")

    directory = args.build_dir / "demo"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    config_file, job_file = write_files(args, directory)

    with Musterd(args, directory, config_file) as musterd:
        screen.step(f"musterd serves on {musterd.address}")
        begin = time.monotonic()
        code, lines = follow(screen, args.build_dir / "bin/muster", musterd.address, job_file,
                             args.epochs)
        rows = check(musterd, lines, code, args.workers, time.monotonic() - begin)
    left = processes_of(musterd.data)
    if left:
        raise DemoError(f"processes are left: {left}")

    screen.line("")
    for name, value in rows:
        screen.line(f"  {name:<16}{value}")
    bin_directory = display(args.build_dir / "bin")
    environment = display(args.venv)
    screen.line(f"""
Next, a job of your own. Keep a musterd running:

  . {environment}/bin/activate
  {bin_directory}/musterd &
  {bin_directory}/muster run --workers 2 -- python examples/pytorch/ddp_digits.py   # or your train.py
  {bin_directory}/muster custom-jobs list

docs/guides/first-job.md goes on from here.""")


def main():
    args = parse_args()
    args.build_dir, args.venv = args.build_dir.resolve(), args.venv.absolute()
    # A polite kill ends the job and the server too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        run(args, Screen())
    except DemoError as error:
        sys.exit(f"demo: {error}")
    except KeyboardInterrupt:
        sys.exit("demo: interrupted; its job and server are stopped")


if __name__ == "__main__":
    main()
