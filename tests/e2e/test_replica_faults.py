"""Programs that misbehave: each ends in a clear state and message, and leaves nothing behind.

That nothing is left is asserted for every test when its musterd is finished.
"""

import os
import pathlib
import re
import signal

import leaks
import pytest
from specs import WAIT, job, pool, python, shell
from waiting import wait_until

SERVICE = "service"


def failed(api, *pools, **fields):
    """Runs a job that must fail; returns (job, error code, message)."""
    submitted = api.create(job(*pools, **fields))
    error = submitted.wait("FAILED")["error"]
    return submitted, error["code"], error["message"]


def test_the_first_replica_that_fails_is_named_with_its_traceback(api):
    source = "import sys\nprint('training')\nraise ValueError('no such column: label')"
    submitted, code, message = failed(api, shell(WAIT), python(source, replicas=1))
    assert code == 3
    assert message.startswith("The replica workerpool1-0 exited with a non-zero status of 1. "
                              "Termination reason: Error. \n")
    assert "ValueError: no such column: label" in message
    assert "Traceback (most recent call last):" in message
    assert submitted.messages(SERVICE)[-1] == "Job failed."
    entry = next(e for e in submitted.entries("workerpool1-0") if "ValueError" in e["message"])
    assert entry["severity"] == "ERROR"


def test_the_primarys_success_ends_the_others(api):
    submitted = api.create(job(shell("echo done"), shell(WAIT, replicas=2)))
    submitted.wait("SUCCEEDED")
    assert "error" not in submitted.get()
    causes = {r["taskName"]: r["attempts"][-1]["cause"] for r in submitted.view()["replicas"]}
    assert causes["workerpool0-0"] == "EXITED"
    assert set(causes.values()) <= {"EXITED", "STOPPED"}
    lines = submitted.messages(SERVICE)
    expected = ["Waiting for job to be provisioned.", "Vertex AI is setting up this job.",
                "Waiting for training program to start.", "Job is running.",
                "Tearing down training program.", "Job completed successfully."]
    # "Job is running." may be missing if the primary ended before the others were up.
    assert [line for line in lines if line in expected] in (
        expected, [line for line in expected if line != "Job is running."])


def test_a_worker_that_is_done_early_is_no_failure(api, tmp_path):
    release = tmp_path / "release"
    submitted = api.create(job(
        shell(f"while [ ! -e {release} ]; do sleep 0.02; done"), shell("echo early")))

    def worker_has_ended():
        attempts = submitted.replica("workerpool1-0").get("attempts", [])
        return attempts and attempts[-1]["state"] == "ENDED"

    wait_until(worker_has_ended, 20, "the worker's end")
    assert submitted.state in ("PENDING", "RUNNING")
    release.touch()
    submitted.wait("SUCCEEDED")


@pytest.mark.parametrize("command, named", [
    (["/no/such/program"], "/no/such/program"),
    (["no-such-program-on-the-path", "x"], "no-such-program-on-the-path"),
    (["/etc/passwd"], "/etc/passwd"),
    (["/"], "/"),
])
def test_a_program_that_is_not_there_is_named(api, command, named):
    submitted, code, message = failed(api, pool(command))
    assert named in message and "workerpool0-0" in message
    assert submitted.replica("workerpool0-0")["attempts"][-1]["cause"] == "NEVER_STARTED"


@pytest.mark.parametrize("status", [1, 2, 3, 77, 127, 255])
def test_programs_that_exit_at_once(api, status):
    _, code, message = failed(api, shell(f"exit {status}"))
    assert code == 3
    assert f"The replica workerpool0-0 exited with a non-zero status of {status}." in message


def test_a_signal_is_128_plus_its_number(api):
    for number, status in ((signal.SIGKILL, 137), (signal.SIGTERM, 143)):
        _, _, message = failed(api, python(f"import os; os.kill(os.getpid(), {number:d})"))
        assert f"exited with a non-zero status of {status}." in message


def test_exit_codes_that_are_tried_again(api, tmp_path):
    """134 and 139 restart the job, at most three times; addresses stay as they were."""
    count = tmp_path / "count"
    submitted = api.create(job(python(f"""
import os, sys
with open({str(count)!r}, "a") as file: print("x", file=file)
print("spec", os.environ["CLUSTER_SPEC"], flush=True)
runs = len(open({str(count)!r}).readlines())
if runs == 1: sys.exit(134)
if runs == 2: os.kill(os.getpid(), 11)
"""), shell(WAIT)))
    submitted.wait("SUCCEEDED")
    attempts = submitted.replica("workerpool0-0")["attempts"]
    assert [a.get("exitStatus", 0) for a in attempts] == [134, 139, 0]
    specs = {m for m in submitted.messages("workerpool0-0") if m.startswith("spec ")}
    assert len(specs) == 1, "addresses must not change"
    assert len({e.get("attempt", 0) for e in submitted.entries("workerpool0-0")}) == 3


@pytest.mark.parametrize("status", [134, 139, 6, 11])
def test_retries_are_not_endless(api, tmp_path, status):
    count = tmp_path / "count"
    _, code, message = failed(api, shell(f"echo x >> {count}; exit {status}"))
    assert f"non-zero status of {status}" in message
    assert len(count.read_text().splitlines()) == 4


def test_retries_can_be_switched_off(api, tmp_path):
    count = tmp_path / "count"
    failed(api, shell(f"echo x >> {count}; exit 134"), scheduling={"disableRetries": True})
    assert len(count.read_text().splitlines()) == 1


def test_programs_that_ignore_sigterm_are_killed(api):
    stubborn = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    submitted = api.create(job(shell(stubborn), shell(stubborn)))
    submitted.wait_for_line("ready", "workerpool0-0")
    submitted.wait_for_line("ready", "workerpool1-0")
    submitted.cancel()
    ended = submitted.wait("CANCELLED")
    assert ended["error"]["code"] == 1


def test_programs_may_clean_up_at_sigterm(api, tmp_path):
    goodbye = tmp_path / "goodbye"
    submitted = api.create(job(shell(
        f"trap 'echo saving; sleep 0.2; echo saved > {goodbye}; exit 0' TERM; echo ready; "
        "while :; do sleep 0.05; done")))
    submitted.wait_for_line("ready")
    submitted.cancel()
    submitted.wait("CANCELLED")
    assert goodbye.read_text() == "saved\n"
    assert "saving" in submitted.messages("workerpool0-0")


DAEMONS = """
import os, sys, time, signal
def daemon(clear):
    if os.fork(): return
    os.setsid()
    if os.fork(): os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for fd in range(3): os.close(fd)
    os.chdir("/")
    argv = [sys.executable, "-c", "import time; time.sleep(1000)", sys.argv[1]]
    os.execve(sys.executable, argv, {} if clear else dict(os.environ))
for number in range(4): daemon(clear=number % 2 == 0)
print("ready", flush=True)
"""


@pytest.mark.parametrize("end", ["exit", "fail", "cancel"])
def test_daemons_that_forked_away_are_ended(api, tmp_path, end):
    """Also those that took a session of their own, closed all files and cleared their
    environment."""
    marker = f"daemon-{os.getpid()}-{end}"
    go_on = tmp_path / "go-on"
    tail = {"exit": "", "fail": "sys.exit(9)", "cancel": ""}[end]
    submitted = api.create(job(python(
        DAEMONS + f"while not os.path.exists({str(go_on)!r}): time.sleep(0.02)\n{tail}", marker)))
    submitted.wait_for_line("ready")

    def daemons():
        return {pid: line for pid, line in leaks.processes_with(marker).items()
                if "time.sleep(1000)" in line and "fork" not in line}

    wait_until(lambda: len(daemons()) == 4, 10, lambda: f"four daemons: {daemons()}")
    if end == "cancel":
        submitted.cancel()
    else:
        go_on.touch()
    submitted.wait({"exit": "SUCCEEDED", "fail": "FAILED", "cancel": "CANCELLED"}[end])
    assert not daemons(), "a terminal job has no processes"


def test_output_held_open_by_a_daemon_does_not_hold_the_job(api):
    """The program ends; a grandchild keeps its standard output open."""
    submitted = api.create(job(shell("(setsid sleep 1000 &) ; echo done")))
    submitted.wait("SUCCEEDED")
    assert "done" in submitted.messages("workerpool0-0")


def test_a_hundred_megabytes_of_output(api):
    lines, width = 100_000, 1000
    submitted = api.create(job(python(
        f"import sys\nfor i in range({lines}): sys.stdout.write('%08d ' % i + 'x' * {width - 10} + "
        "'\\n')\nprint('the end')")))
    submitted.wait("SUCCEEDED", timeout_s=90)
    messages = submitted.messages("workerpool0-0")
    assert messages[-1] == "the end"
    assert len(messages) == lines + 1
    assert all(m.startswith(f"{i:08d} ") and len(m) == width - 1
               for i, m in enumerate(messages[:-1]))


def test_lines_without_an_end_and_bytes_that_are_no_text(api):
    submitted = api.create(job(python(
        "import sys\n"
        "out = sys.stdout.buffer\n"
        "out.write(b'y' * 300_000 + b'\\n')\n"
        "out.write(b'\\xff\\xfe\\x00binary\\n')\n"
        "out.write(b'no newline at the end')\n")))
    submitted.wait("SUCCEEDED")
    messages = submitted.messages("workerpool0-0")
    assert sum(m.count("y") for m in messages[:-2]) >= 300_000 - 1
    assert "binary" in messages[-2]
    assert messages[-1] == "no newline at the end"


def test_severities(api):
    submitted = api.create(job(python(
        "import sys, json\n"
        "print('to stdout', flush=True)\n"
        "print('to stderr', file=sys.stderr, flush=True)\n"
        "print(json.dumps({'severity': 'WARNING', 'message': 'lifted'}), flush=True)\n")))
    submitted.wait("SUCCEEDED")
    seen = {e["message"]: e["severity"] for e in submitted.entries("workerpool0-0")}
    assert seen == {"to stdout": "INFO", "to stderr": "ERROR", "lifted": "WARNING"}


def test_files_in_log_storage_are_collected(api):
    submitted = api.create(job(shell(
        "echo first > /var/log-storage/output.log; echo second > /var/log-storage/output-2.log; "
        "echo third >> /var/log-storage/output.log")))
    submitted.wait("SUCCEEDED")
    assert {"first", "second", "third"} <= set(submitted.messages("workerpool0-0"))
    assert not pathlib.Path("/var/log-storage/output.log").exists()


def test_out_of_memory_is_told(musterd, api):
    hog = ("blocks = []\n"
           "while True: blocks.append(bytearray(b'x') * (8 << 20))")
    submitted = api.create(job(shell(WAIT), python(hog, machine="tiny")))
    if "no memory limit" in musterd.log() or not any(
            os.access(f"/sys/fs/cgroup/{d}", os.W_OK) for d in ("memory", "cgroup.controllers")):
        pytest.skip("no memory controller that may be used here")
    message = submitted.wait("FAILED")["error"]["message"]
    assert "The replica workerpool1-0 ran out of memory" in message
    assert "137" in message
    assert submitted.replica("workerpool1-0")["attempts"][-1]["cause"] == "OUT_OF_MEMORY"


def test_a_timeout_ends_the_job_with_a_clear_message(api):
    submitted = api.create(job(shell(WAIT), shell(WAIT), scheduling={"timeout": "2s"}))
    ended = submitted.wait("FAILED", "CANCELLED")
    assert re.search(r"\b2 ?s|timeout|timed out", ended["error"]["message"])


def test_a_job_with_many_replicas(api):
    submitted = api.create(job(shell("sleep 0.3"), shell(WAIT, replicas=12)))
    submitted.wait("SUCCEEDED", timeout_s=60)
    assert len(submitted.view()["replicas"]) == 13
