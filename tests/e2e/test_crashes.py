"""kill -9 of musterd and of agents, at any time."""

import contextlib
import os
import pathlib
import random
import signal
import subprocess
import time

import leaks
import pytest
from specs import WAIT, job, python, shell
from waiting import wait_until

LINES = """
import sys, time
for number in range(int(sys.argv[1])):
    print(f"line {number}", flush=True)
    time.sleep(0.004)
"""


def numbers(submitted, task):
    return [int(m.split()[1]) for m in submitted.messages(task) if m.startswith("line ")]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_musterd_is_killed_again_and_again(musterd, seed):
    """The job goes on meanwhile; afterwards its state is right and each line is there once."""
    dice = random.Random(seed)
    count = 1000
    submitted = musterd.api.create(job(
        python(LINES, str(count)), python(LINES, str(count), replicas=2)))
    kills = 0
    while kills < 5:
        time.sleep(dice.uniform(0, 0.8))  # the moment is random: nothing waits for this
        musterd.kill()
        kills += 1
        time.sleep(dice.choice([0, 0, 0.3]))
        musterd.start()
    submitted = musterd.api.jobs()[0]
    submitted.wait("SUCCEEDED", timeout_s=40)
    assert numbers(submitted, "workerpool0-0") == list(range(count))
    for index in (0, 1):  # ended with the primary, wherever they were
        seen = numbers(submitted, f"workerpool1-{index}")
        assert seen == list(range(len(seen))) and len(seen) > count // 4
    for replica in submitted.view()["replicas"]:
        assert len(replica["attempts"]) == 1, "nothing was started twice"


def test_musterd_is_killed_while_it_creates_jobs(musterd):
    """Every job that was acknowledged is there, and runs to its end once."""
    marks = musterd.directory / "marks"
    marks.mkdir()
    dice = random.Random(7)
    acknowledged = []
    for _ in range(4):
        until = time.monotonic() + dice.uniform(0.05, 0.4)
        while time.monotonic() < until:
            name = f"job-{len(acknowledged)}"
            created = musterd.api.create(job(shell(f"echo x >> {marks}/{name}")), name)
            acknowledged.append((name, created.name))
        musterd.restart()
    for name, resource in acknowledged:
        found = next(j for j in musterd.api.jobs() if j.name == resource)
        found.wait("SUCCEEDED", timeout_s=60)
        assert (marks / name).read_text() == "x\n", f"{name} ran more than once"


def test_a_job_that_ended_while_musterd_was_away(musterd):
    submitted = musterd.api.create(job(shell("echo ready; sleep 0.7; echo done"), shell(WAIT)))
    submitted.wait_for_line("ready", "workerpool0-0")
    submitted.wait_for_line("ready", "workerpool1-0")
    musterd.kill()
    report = musterd.data / "jobs"
    wait_until(lambda: list(report.glob("*/workerpool0-0/*/report.json")), 15, "the agent's report")
    musterd.start()
    submitted = musterd.api.jobs()[0]
    submitted.wait("SUCCEEDED")
    assert submitted.messages("workerpool0-0") == ["ready", "done"]


def test_a_cancel_is_not_forgotten(musterd):
    """Killed right after it said yes."""
    submitted = musterd.api.create(job(shell("trap '' TERM; echo ready; while :; do sleep 0.1; done")))
    submitted.wait_for_line("ready")
    submitted.cancel()
    musterd.restart()
    musterd.api.jobs()[0].wait("CANCELLED")


def test_a_restart_of_musterd_keeps_the_queue(start_musterd):
    musterd = start_musterd({"cpus": 1, "oversubscribe": 1})
    first = musterd.api.create(job(shell(WAIT)), "first")
    first.wait("RUNNING")
    names = [musterd.api.create(job(shell("true")), f"waiting-{i}").name for i in range(3)]
    musterd.restart()
    jobs = {j.name: j for j in musterd.api.jobs()}
    assert jobs[first.name].state == "RUNNING"
    assert [jobs[n].state for n in names] == ["QUEUED"] * 3
    jobs[first.name].cancel()
    starts = [jobs[n].wait("SUCCEEDED")["startTime"] for n in names]
    assert starts == sorted(starts)


def agents_of(musterd, task):
    """Process ids of the agents of a replica."""
    return [pid for pid, command in leaks.processes_with(musterd.data).items()
            if "muster-agent" in command.split()[0] and f"/{task}/" in command]


def test_an_agent_is_killed(musterd):
    """Its replica's processes are ended, and the job fails, naming it."""
    daemon = "(setsid sleep 1000 </dev/null >/dev/null 2>&1 &); "
    submitted = musterd.api.create(job(shell(WAIT), shell(daemon + WAIT, replicas=2)))
    submitted.wait("RUNNING")
    submitted.wait_for_line("ready", "workerpool1-1")
    (agent,) = agents_of(musterd, "workerpool1-1")
    os.kill(agent, signal.SIGKILL)
    error = submitted.wait("FAILED")["error"]
    assert "workerpool1-1" in error["message"]
    assert submitted.replica("workerpool1-1")["attempts"][-1]["cause"] == "AGENT_LOST"
    assert not leaks.processes_of(musterd.data, musterd.uids).keys() - {musterd.pid}


def test_an_agent_is_killed_while_musterd_is_away(musterd):
    submitted = musterd.api.create(job(shell(WAIT), shell(WAIT)))
    submitted.wait("RUNNING")
    submitted.wait_for_line("ready", "workerpool0-0")
    (agent,) = agents_of(musterd, "workerpool0-0")
    musterd.kill()
    os.kill(agent, signal.SIGKILL)
    musterd.start()
    error = musterd.api.jobs()[0].wait("FAILED")["error"]
    assert "workerpool0-0" in error["message"]


def test_all_is_killed_at_once(musterd):
    submitted = musterd.api.create(job(shell(WAIT), shell(WAIT, replicas=3)))
    submitted.wait("RUNNING")
    victims = list(leaks.processes_of(musterd.data))
    for pid in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    musterd.process.wait()
    musterd.process = None
    musterd.start()
    musterd.api.jobs()[0].wait("FAILED")


def test_musterd_refuses_a_data_directory_that_is_in_use(musterd):
    second = subprocess.run([*musterd_command(musterd)], capture_output=True, text=True, timeout=10)
    assert second.returncode != 0
    assert str(musterd.data) in second.stderr + second.stdout
    assert musterd.api.healthy()


def musterd_command(musterd):
    return ["/proc/%d/exe" % musterd.pid, "--data-dir", str(musterd.data), "--listen",
            "127.0.0.1:0", "--config", str(musterd.config_file)]


def test_the_endpoint_file_names_the_process_that_serves(musterd):
    before = (musterd.data / "musterd.json").read_text()
    old = musterd.pid
    musterd.kill()
    musterd.start()
    after = (musterd.data / "musterd.json").read_text()
    assert before != after and str(old) in before and str(musterd.pid) in after
    assert not list(pathlib.Path(musterd.data).glob("*.tmp"))
