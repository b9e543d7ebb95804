"""Cancel, delete, wait: the life of a job as clients see it."""

import pytest
from api import ApiError
from specs import WAIT, job, shell
from waiting import wait_until

ONE_AT_A_TIME = {"cpus": 1, "oversubscribe": 1}


def test_times_are_in_order(api):
    ended = api.create(job(shell("true"))).wait("SUCCEEDED")
    assert ended["createTime"] <= ended["startTime"] <= ended["endTime"] <= ended["updateTime"]


def test_cancel_while_queued(start_musterd):
    api = start_musterd(ONE_AT_A_TIME).api
    first = api.create(job(shell(WAIT)))
    first.wait("RUNNING")
    second = api.create(job(shell("true")))
    wait_until(lambda: second.view().get("waitingReason"), 10, "a reason")
    assert second.state == "QUEUED"
    assert second.cancel() == {}
    ended = second.wait("CANCELLED")
    assert ended["error"]["code"] == 1
    assert not second.view()["replicas"] or not any(
        r.get("attempts") for r in second.view()["replicas"])
    assert first.state == "RUNNING"


def test_cancel_right_after_create(api):
    for _ in range(10):
        submitted = api.create(job(shell(WAIT), shell(WAIT)))
        submitted.cancel()
        submitted.wait("CANCELLED")


def test_cancel_while_running_and_while_cancelling(api):
    submitted = api.create(job(shell("trap 'sleep 0.5; exit 0' TERM; echo ready; "
                                     "while :; do sleep 0.05; done")))
    submitted.wait("RUNNING")
    submitted.wait_for_line("ready")
    submitted.cancel()
    assert submitted.state in ("CANCELLING", "CANCELLED")
    submitted.cancel()
    ended = submitted.wait("CANCELLED")
    assert ended["error"]["code"] == 1 and ended["endTime"]
    assert "startTime" in ended


@pytest.mark.parametrize("script, state", [("true", "SUCCEEDED"), ("exit 3", "FAILED")])
def test_cancel_of_a_finished_job_does_nothing(api, script, state):
    submitted = api.create(job(shell(script)))
    before = submitted.wait(state)
    assert submitted.cancel() == {}
    assert submitted.get() == before


def test_delete_gives_an_operation_that_every_client_can_poll(musterd, api):
    submitted = api.create(job(shell("echo bye")))
    submitted.wait("SUCCEEDED")
    (uid,) = [entry.name for entry in (musterd.data / "jobs").iterdir()]
    operation = submitted.delete()
    deadline_prefixes = ("/v1/", "/ui/", "/v1beta1/")
    for prefix in deadline_prefixes:
        polled = wait_until(
            lambda prefix=prefix: (o := api.get(prefix + operation["name"])).get("done") and o, 10,
            "done")
        assert set(polled) <= {"name", "metadata", "done", "response"}
        assert polled["metadata"]["@type"].endswith("aiplatform.v1.DeleteOperationMetadata")
        assert polled["response"]["@type"].endswith("google.protobuf.Empty")
    with pytest.raises(ApiError) as error:
        submitted.get()
    assert error.value.http_status == 404 and submitted.name in error.value.message
    assert api.list_all() == []
    assert not (musterd.data / "jobs" / uid).exists(), "its files are gone"


def test_a_running_job_is_not_deleted(api):
    submitted = api.create(job(shell(WAIT)))
    with pytest.raises(ApiError) as error:
        submitted.delete()
    assert error.value.status == "FAILED_PRECONDITION"
    assert "cancel" in error.value.message.lower()
    submitted.cancel()
    submitted.wait("CANCELLED")
    submitted.delete()


def test_jobs_outlive_musterd(musterd):
    """Asked to end (not killed), musterd leaves its jobs to go on, and finds them again."""
    submitted = musterd.api.create(job(shell("echo ready; sleep 1.5; echo done")))
    submitted.wait_for_line("ready")
    assert musterd.stop() == 0
    musterd.start()
    again = musterd.api.jobs()[0]
    again.wait("SUCCEEDED")
    assert [m for m in again.messages("workerpool0-0")] == ["ready", "done"]
    assert len(again.replica("workerpool0-0")["attempts"]) == 1
