"""A thousand jobs created and cancelled leave nothing behind."""

import concurrent.futures
import os
import random
import subprocess

import leaks
import pytest
from api import Api
from specs import job, shell
from waiting import wait_until

CYCLES = int(os.environ.get("MUSTER_TEST_CYCLES", "1000"))


def footprint(musterd):
    with open(f"/proc/{musterd.pid}/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    namespaces = subprocess.run(["lsns", "--noheadings", "--output", "NS", "--type", "net"],
                                capture_output=True, text=True).stdout.split()
    return {"descriptors": len(os.listdir(f"/proc/{musterd.pid}/fd")),
            "threads": int(fields["Threads"]), "namespaces": len(namespaces),
            "resident_kb": int(fields["VmRSS"].split()[0])}


# No other test's musterd leases from these.
PORTS = range(18000, 19000)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_thousand_create_and_cancel_cycles(start_musterd):
    musterd = start_musterd({"ports": f"{PORTS.start}-{PORTS.stop - 1}"})

    def cycles(worker, count):
        """Cancels each job at a moment of its own: at once, while it starts, or when it runs."""
        api = Api(musterd.address)
        dice = random.Random(worker)
        for _ in range(count):
            submitted = api.create(job(shell("sleep 1000 & wait"), shell("exec sleep 1000")))
            when = dice.choice(["at once", "pending", "running"])
            if when == "pending":
                wait_until(lambda: submitted.state in ("PENDING", "RUNNING"), 30, "pending")
            elif when == "running":
                submitted.wait("RUNNING", timeout_s=60)
            submitted.cancel()
            submitted.wait("CANCELLED", timeout_s=60)
            submitted.delete()

    workers = 6
    cycles(99, 20)  # pools, caches and the like are filled
    before = footprint(musterd)
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(cycles, n, CYCLES // workers) for n in range(workers)]
        for future in concurrent.futures.as_completed(futures):
            future.result()

    assert musterd.api.list_all() == []
    wait_until(lambda: leaks.processes_of(musterd.data).keys() == {musterd.pid}, 10,
               lambda: f"only musterd: {leaks.processes_of(musterd.data)}")
    assert list((musterd.data / "jobs").iterdir()) == []
    assert not leaks.mounts_below(musterd.data)
    wait_until(lambda: not leaks.port_leases() & set(PORTS), 10,
               lambda: f"leases of {leaks.port_leases() & set(PORTS)}")
    after = wait_until(
        lambda: (f := footprint(musterd))["descriptors"] <= before["descriptors"] + 3 and f, 15,
        lambda: f"descriptors: {before} {footprint(musterd)}")
    assert after["threads"] <= before["threads"] + 2, (before, after)
    assert after["resident_kb"] < before["resident_kb"] + 60_000, (before, after)
    print(f"before {before}, after {CYCLES} cycles {after}")
