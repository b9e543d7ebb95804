"""Logs as pages and as a stream that can be resumed."""

import os

import pytest
from specs import WAIT, job, python, shell
from waiting import wait_until

COUNT = """
import sys, time
for number in range(int(sys.argv[1])):
    print(f"line {number}", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def lines(events):
    return [(e["taskName"], e["message"]) for kind, _, e in events if "message" in e]


def test_a_stream_follows_the_job_and_ends_with_it(api):
    submitted = api.create(job(python(COUNT, "50", "0.02"), shell("echo hello; exec sleep 100")))
    events = lines(submitted.stream())
    assert [m for t, m in events if t == "workerpool0-0"] == [f"line {n}" for n in range(50)]
    assert ("workerpool1-0", "hello") in events
    assert events[-1] == ("service", "Job completed successfully.")
    assert submitted.state == "SUCCEEDED"


def test_lines_come_while_the_job_runs(api, tmp_path):
    release = tmp_path / "release"
    submitted = api.create(job(shell(
        f"echo early; while [ ! -e {release} ]; do sleep 0.02; done; echo late")))
    seen = []
    for _, _, entry in submitted.stream():
        seen.append(entry.get("message"))
        if entry.get("message") == "early":
            assert submitted.state in ("PENDING", "RUNNING")
            release.touch()
    assert "late" in seen


@pytest.mark.parametrize("cut_after", [1, 7, 40])
def test_a_stream_is_resumed_where_it_broke(api, cut_after):
    submitted = api.create(job(python(COUNT, "60", "0.005"), python(COUNT, "60", "0.004")))
    whole, last = [], None
    while True:
        part = []
        for kind, identity, entry in submitted.stream(last_event_id=last):
            if identity is not None:
                last = identity
            if "message" in entry:
                part.append((entry["taskName"], entry["message"]))
            if len(part) == cut_after:
                break  # the connection is dropped here
        whole += part
        if not part or part[-1] == ("service", "Job completed successfully."):
            break
    reference = [(e["taskName"], e["message"]) for e in submitted.entries()]
    for task in ("service", "workerpool0-0", "workerpool1-0"):
        assert [m for t, m in whole if t == task] == [m for t, m in reference if t == task]
    assert len(whole) == len(set(whole)), "no line twice"


def test_a_resumed_stream_survives_a_restart_of_musterd(musterd):
    submitted = musterd.api.create(job(python(COUNT, "200", "0.01")))
    before, last = [], None
    for _, identity, entry in submitted.stream():
        if identity is not None:
            last = identity
        if "message" in entry:
            before.append((entry["taskName"], entry["message"]))
        if len(before) == 40:
            break
    musterd.restart()
    submitted = musterd.api.jobs()[0]
    after = lines(submitted.stream(last_event_id=last))
    printed = [m for t, m in before + after if t == "workerpool0-0"]
    assert printed == [f"line {n}" for n in range(200)]


def test_one_task_alone(api):
    submitted = api.create(job(shell("echo a"), shell("echo b; exec sleep 100")))
    submitted.wait("SUCCEEDED")
    assert {t for t, _ in lines(submitted.stream(task="workerpool0-0"))} == {"workerpool0-0"}
    assert submitted.messages("workerpool0-0") == ["a"]
    assert all(e["taskName"] == "service" for e in submitted.entries("service"))


def test_pages_of_any_size_hold_the_same(api):
    submitted = api.create(job(python(COUNT, "100", "0"), python(COUNT, "100", "0")))
    submitted.wait("SUCCEEDED")
    whole = submitted.entries()
    for size in (1, 3, 50):
        assert submitted.entries(page_size=size) == whole
    times = [e["timestamp"] for e in whole]
    assert times == sorted(times)


def test_a_slow_reader_does_not_hold_the_job_or_the_memory(musterd):
    """Nobody reads the stream of a job that prints 50 MB."""
    submitted = musterd.api.create(job(python(
        "for i in range(50_000): print('x' * 1000)\nprint('the end', flush=True)")))
    stream = submitted.stream()
    next(stream)
    submitted.wait("SUCCEEDED", timeout_s=60)
    with open(f"/proc/{musterd.pid}/status") as status:
        resident_kb = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    assert resident_kb < 200_000
    stream.close()


def test_a_reader_that_goes_away_is_forgotten(musterd):
    submitted = musterd.api.create(job(shell(WAIT)))
    submitted.wait("RUNNING")

    def descriptors():
        return len(os.listdir(f"/proc/{musterd.pid}/fd"))

    before = descriptors()
    for _ in range(20):
        stream = submitted.stream()
        next(stream)
        stream.close()
    wait_until(lambda: descriptors() <= before + 2, 30, lambda: f"{descriptors()} of {before}")


def test_health_and_metrics(api):
    api.create(job(shell("true"))).wait("SUCCEEDED")
    assert api.healthy()
    text = api.metrics()
    samples = {line.split()[0]: float(line.split()[1]) for line in text.splitlines()
               if line and not line.startswith("#")}
    assert all(name.startswith(("muster_", "process_")) for name in samples), samples
    assert any(value == 1 for name, value in samples.items() if "succeeded" in name.lower())
