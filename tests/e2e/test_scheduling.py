"""Who runs and who waits."""

import pytest
from specs import WAIT, job, pool, shell
from waiting import wait_until

TWO_CORES = {"cpus": 2, "memory_gb": 8, "oversubscribe": 1}


def waiting_reason(submitted):
    return wait_until(lambda: submitted.view().get("waitingReason"), 10, "a reason to wait")


def test_first_in_first_out_and_all_or_nothing(start_musterd):
    api = start_musterd(TWO_CORES).api
    first = api.create(job(shell(WAIT)), "first")  # one of two cores
    first.wait("RUNNING")
    gang = api.create(job(shell("true"), shell(WAIT)), "gang")  # needs both
    assert "vCPU" in waiting_reason(gang) or "core" in waiting_reason(gang)
    small = api.create(job(shell("true")), "small")  # would fit, but came later
    assert waiting_reason(small)
    assert (gang.state, small.state) == ("QUEUED", "QUEUED")
    assert not any(r.get("attempts") for r in gang.view()["replicas"]), "nothing started in part"
    first.cancel()
    gang.wait("SUCCEEDED")
    small.wait("SUCCEEDED")
    assert gang.get()["startTime"] <= small.get()["startTime"]
    assert any("Waiting for resources" in m for m in gang.messages("service"))


def test_memory_counts_too(start_musterd):
    api = start_musterd({"cpus": 100, "memory_gb": 1.5, "oversubscribe": 1}).api
    first = api.create(job(shell(WAIT)))
    first.wait("RUNNING")
    second = api.create(job(shell("true")))
    assert "memory" in waiting_reason(second).lower() or "GB" in waiting_reason(second)
    first.cancel()
    second.wait("SUCCEEDED")


def test_a_single_machine_is_oversubscribed_by_default(start_musterd):
    """A cloud-sized spec runs on a laptop."""
    api = start_musterd({"cpus": 2}).api
    submitted = api.create(job(shell("true", machine="n1-standard-8"),
                               shell(WAIT, machine="n1-standard-8", replicas=2)))
    submitted.wait("SUCCEEDED")


def test_a_job_larger_than_the_machine_runs_alone_or_says_why_not(start_musterd):
    api = start_musterd(TWO_CORES).api
    submitted = api.create(job(shell("true", machine="n1-standard-96")))
    wait_until(lambda: submitted.state == "SUCCEEDED" or submitted.view().get("waitingReason"), 15,
               "run or reason")


def accelerated(script, count=1, **keywords):
    spec = shell(script, **keywords)
    spec["machineSpec"] |= {"machineType": "n1-standard-4", "acceleratorType": "NVIDIA_TESLA_T4",
                            "acceleratorCount": count}
    return spec


def test_missing_accelerators_are_done_without_after_a_warning(start_musterd):
    api = start_musterd({"gpus": 0}).api
    submitted = api.create(job(accelerated('echo "devices=$CUDA_VISIBLE_DEVICES"')))
    submitted.wait("SUCCEEDED")
    (warning,) = submitted.view()["warnings"]
    assert "NVIDIA_TESLA_T4" in warning
    assert any(warning in m for m in submitted.messages("service"))
    assert submitted.messages("workerpool0-0") in (["devices=-1"], ["devices="])


def test_missing_accelerators_are_waited_for_if_so_configured(start_musterd):
    api = start_musterd({"gpus": 0, "accelerators": "wait"}).api
    submitted = api.create(job(accelerated("true")))
    assert "GPU" in waiting_reason(submitted) or "accelerator" in waiting_reason(submitted)
    other = api.create(job(shell("true")))  # does not stand behind one that can never run
    other.wait("SUCCEEDED")
    submitted.cancel()
    submitted.wait("CANCELLED")


def test_gpus_are_handed_out_once(start_musterd):
    api = start_musterd({"gpus": 4}).api
    submitted = api.create(job(
        accelerated('echo "devices=$CUDA_VISIBLE_DEVICES"; sleep 0.2', 2),
        accelerated('echo "devices=$CUDA_VISIBLE_DEVICES"; sleep 1000', 1, replicas=2)))
    submitted.wait_for_line("devices=", "workerpool1-0")
    submitted.wait_for_line("devices=", "workerpool1-1")
    submitted.wait("SUCCEEDED")
    devices = [m.removeprefix("devices=").split(",") for m in submitted.messages()
               if m.startswith("devices=")]
    assert sorted(len(d) for d in devices) == [1, 1, 2]
    assert sorted(d for replica in devices for d in replica) == ["0", "1", "2", "3"]
    assert "warnings" not in submitted.view() or not submitted.view()["warnings"]


@pytest.mark.parametrize("machine", ["n1-standard-4", "e2-highmem-16", "a2-highgpu-1g"])
def test_vertex_machine_types(api, machine):
    api.create(job(pool(["true"], machine=machine))).wait("SUCCEEDED")
