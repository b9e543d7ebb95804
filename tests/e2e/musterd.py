"""A musterd of a test's own."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess

import leaks
from api import TERMINAL, Api
from specs import PYTHON_IMAGE
from waiting import wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("MUSTER_BIN", ROOT / "build/bin"))
VENV = pathlib.Path(os.environ.get("MUSTER_TEST_VENV", ROOT / "build/venv"))

MACHINE_TYPES = [
    {"name": "small", "vcpus": 1, "memory_gb": 1, "egress_gbps": 1},
    {"name": "tiny", "vcpus": 1, "memory_gb": 0.0625, "egress_gbps": 1},
]


def default_config():
    return {
        "network": "private",
        "grace_period": "1s",
        "images": [
            {"pattern": PYTHON_IMAGE, "python": str(VENV)},
            {"pattern": "us-docker.pkg.dev/vertex-ai/training/*", "python": str(VENV),
             "env": {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0",
                     "TF_NUM_INTRAOP_THREADS": "1", "OMP_NUM_THREADS": "1"}},
        ],
        "machine_types": MACHINE_TYPES,
    }


class Musterd:
    """Started, killed and started again over one data directory. finish() looks for leaks."""

    def __init__(self, directory, config=None, data=None):
        self.directory = pathlib.Path(directory)
        self.data = pathlib.Path(data or self.directory / "data")
        self.config_file = self.directory / "musterd.yaml"
        self.config = {**default_config(), **(config or {})}
        self.config_file.write_text(json.dumps(self.config, indent=2))
        self.log_file = self.directory / "musterd.log"
        self.tmp = self.directory / "tmp"
        self.tmp.mkdir()
        self.cgroups_before = leaks.muster_cgroups()
        self.process = None
        self.api = None
        self.uids = set()

    def start(self, wait=True, **environment):
        assert self.process is None
        endpoint = self.data / "musterd.json"
        endpoint.unlink(missing_ok=True)
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(
                [BIN / "musterd", "--data-dir", self.data, "--listen", "127.0.0.1:0",
                 "--config", self.config_file],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory,
                env={**os.environ, "TMPDIR": str(self.tmp), **environment})
        if wait:
            self.wait_until_serving()
        return self

    def wait_until_serving(self, timeout_s=15):
        def serving():
            assert self.process.poll() is None, f"musterd ended:\n{self.log()}"
            with contextlib.suppress(OSError, ValueError):
                return json.loads((self.data / "musterd.json").read_text())

        endpoint = wait_until(serving, timeout_s, lambda: f"serving\n{self.log()}")
        assert endpoint["pid"] == self.process.pid
        self.api = Api(endpoint["address"])

    @property
    def address(self):
        return self.api.address

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def kill(self):
        """kill -9; its agents live on."""
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self, timeout_s=15):
        """SIGTERM; returns the exit status."""
        self.process.terminate()
        try:
            status = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            self.process.wait()
            raise AssertionError(f"musterd did not end within {timeout_s} s of SIGTERM\n"
                                 f"{self.log()}") from None
        self.process = None
        return status

    def restart(self):
        self.kill()
        return self.start()

    def end_jobs(self, timeout_s=20):
        jobs = [job for job in self.api.jobs() if job.get()["state"] not in TERMINAL]
        for job in jobs:
            job.cancel()
        for job in jobs:
            job.wait(timeout_s=timeout_s)

    def finish(self):
        """Ends all, and asserts that nothing is left."""
        self.uids |= set(leaks.job_uids(self.data))
        try:
            if self.process is None:
                self.start()
            assert self.process.poll() is None, f"musterd has died: {self.process.returncode}"
            self.end_jobs()
            assert self.stop() == 0, "musterd's exit status"
            self.assert_nothing_left()
        finally:
            self.destroy()

    def assert_nothing_left(self):
        self.uids |= set(leaks.job_uids(self.data))
        problems = []

        def processes():
            return leaks.processes_of(self.data, self.uids)

        with contextlib.suppress(AssertionError):
            # The last agent may be on its way out.
            wait_until(lambda: not processes(), 3, "gone")
        if processes():
            problems.append(f"processes: {processes()}")
        if leaks.mounts_below(self.data):
            problems.append(f"mounts: {leaks.mounts_below(self.data)}")
        if leaks.cgroups_of(self.uids):
            problems.append(f"cgroups: {leaks.cgroups_of(self.uids)}")

        def empty_cgroups():
            return leaks.empty_muster_cgroups() - self.cgroups_before

        with contextlib.suppress(AssertionError):
            # Other musterds of this machine have empty ones too, for a moment.
            wait_until(lambda: not empty_cgroups(), 5, "gone")
        if empty_cgroups():
            problems.append(f"empty cgroups: {empty_cgroups()}")
        if any(self.tmp.iterdir()):
            problems.append(f"temporary files: {list(self.tmp.iterdir())}")
        for attempt_tmp in self.data.glob("jobs/*/*/*/tmp"):
            if any(attempt_tmp.iterdir()):
                problems.append(f"a replica's temporary files: {attempt_tmp}")
        assert not problems, "left behind: " + "; ".join(problems)

    def destroy(self):
        """Whatever a failed test left."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
        for pid in leaks.processes_of(self.data, self.uids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
