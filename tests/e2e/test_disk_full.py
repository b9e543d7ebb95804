"""The disk fills up: jobs fail or lose output, and say so; the service stays."""

import contextlib
import os
import subprocess

import pytest
from api import ApiError
from specs import job, python, shell
from waiting import wait_until

MEGABYTES = 48


@pytest.fixture
def small_disk(tmp_path):
    directory = tmp_path / "disk"
    directory.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m,mode=755", "muster-test", directory],
        capture_output=True).returncode == 0
    if not mounted:
        pytest.skip("a small disk can only be mounted as root")
    yield directory
    subprocess.run(["umount", "--lazy", directory], check=True)


@pytest.fixture
def musterd(small_disk, start_musterd):
    return start_musterd(data=small_disk / "data")


def fill(directory):
    """Leaves not one block; returns the file to remove."""
    path = directory / "ballast"
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\0" * (1 << 16))
    with open(path, "ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\0")
    return path


def test_a_program_that_fills_the_disk_fails_and_says_so(musterd):
    submitted = musterd.api.create(job(
        shell('exec cat /dev/zero > "$AIP_MODEL_DIR/model"'),
        baseOutputDirectory={"outputUriPrefix": "gs://my-bucket/out"}))
    error = submitted.wait("FAILED", timeout_s=60)["error"]
    assert "No space left on device" in error["message"]
    (musterd.data / "buckets/my-bucket/out/model/model").unlink()
    musterd.api.create(job(shell("echo again"))).wait("SUCCEEDED")


def test_output_that_fills_the_disk_does_not_hold_the_program(musterd):
    """It runs on to its end; what could not be kept is told."""
    submitted = musterd.api.create(job(python(
        f"for i in range({3 * MEGABYTES * 1000}): print('x' * 999)\n")))
    submitted.wait("SUCCEEDED", timeout_s=80)
    assert musterd.api.healthy()
    lost = [m for m in submitted.messages("service") if "could not be written" in m]
    assert len(lost) == 1 and "workerpool0-0" in lost[0]
    submitted.delete()
    musterd.api.create(job(shell("echo again"))).wait("SUCCEEDED")


def test_states_are_kept_on_a_full_disk_and_new_jobs_are_refused(musterd, small_disk):
    release = musterd.directory / "release"
    script = f"echo ready; while [ ! -e {release} ]; do sleep 0.05; done"
    submitted = musterd.api.create(job(shell(script)))
    submitted.wait_for_line("ready")
    ballast = fill(small_disk)

    def refused():
        with contextlib.suppress(OSError), open(ballast, "ab", buffering=0) as file:
            while True:
                file.write(b"\0" * 4096)  # whatever was freed meanwhile
        try:
            musterd.api.create(job(shell("true")))
        except ApiError as error:
            assert error.status == "RESOURCE_EXHAUSTED", error
            assert "disk" in error.message or "space" in error.message
            return True
        return False

    wait_until(refused, 20, "refused")
    release.touch()
    submitted.wait("SUCCEEDED", timeout_s=30)
    ballast.unlink()
    again = wait_until(lambda: try_create(musterd.api), 20, "taken again")
    again.wait("SUCCEEDED")


def try_create(api):
    try:
        return api.create(job(shell("true")))
    except ApiError as error:
        assert error.status == "RESOURCE_EXHAUSTED", error
        return None
