"""The official Python client: gRPC, REST, and the SDK on top."""

import clients
import google.api_core.exceptions as api_exceptions
import pytest
from api import PARENT
from google.auth.credentials import AnonymousCredentials
from google.cloud import aiplatform
from google.cloud.aiplatform_v1.types import JobState
from specs import WAIT, job, shell
from waiting import wait_until


@pytest.fixture(params=["grpc", "rest"])
def client(request, musterd):
    make = clients.grpc_job_client if request.param == "grpc" else clients.rest_job_client
    with make(musterd.address) as client:
        yield client


def create(client, *pools, name="client", **fields):
    spec = clients.to_proto_dict(job(*pools))
    return client.create_custom_job(
        parent=PARENT, custom_job={"display_name": name, "job_spec": spec, **fields})


def wait_for(client, name, state):
    return wait_until(lambda: (j := client.get_custom_job(name=name)).state == state and j, 20,
                      lambda: client.get_custom_job(name=name))


def test_create_get_list_cancel_delete(client):
    made = create(client, shell("true"), shell(WAIT), name="one", labels={"a": "b"})
    assert made.state in (JobState.JOB_STATE_QUEUED, JobState.JOB_STATE_PENDING)
    assert made.name.startswith(f"{PARENT}/customJobs/")
    done = wait_for(client, made.name, JobState.JOB_STATE_SUCCEEDED)
    assert done.job_spec.worker_pool_specs[1].replica_count == 1
    assert done.labels == {"a": "b"}
    assert done.create_time <= done.start_time <= done.end_time

    running = create(client, shell(WAIT), name="two")
    wait_for(client, running.name, JobState.JOB_STATE_RUNNING)
    client.cancel_custom_job(name=running.name)
    cancelled = wait_for(client, running.name, JobState.JOB_STATE_CANCELLED)
    assert cancelled.error.code == 1

    request = {"parent": PARENT, "page_size": 1, "filter": 'state="JOB_STATE_SUCCEEDED"'}
    assert [j.display_name for j in client.list_custom_jobs(request=request)] == ["one"]
    everything = [j.display_name for j in client.list_custom_jobs(
        request={"parent": PARENT, "page_size": 1, "read_mask": {"paths": ["name", "display_name"]}})]
    assert everything == ["two", "one"]

    assert client.delete_custom_job(name=running.name).result(timeout=10) is not None
    with pytest.raises(api_exceptions.NotFound, match=running.name):
        client.get_custom_job(name=running.name)


def test_errors_come_as_their_kind(client):
    with pytest.raises(api_exceptions.BadRequest, match="List of found errors:\t1.Field: "):
        create(client, shell("true"), name="")
    with pytest.raises(api_exceptions.NotFound):
        client.cancel_custom_job(name=f"{PARENT}/customJobs/1")
    with pytest.raises(api_exceptions.BadRequest):
        list(client.list_custom_jobs(request={"parent": PARENT, "filter": "state="}))
    with pytest.raises(api_exceptions.MethodNotImplemented):
        list(client.list_hyperparameter_tuning_jobs(parent=PARENT))


@pytest.fixture
def sdk(musterd):
    aiplatform.init(project="p", location="us-central1", staging_bucket="gs://staging",
                    api_endpoint=f"http://{musterd.address}", api_transport="rest",
                    credentials=AnonymousCredentials())
    yield aiplatform
    aiplatform.initializer.global_pool.shutdown(wait=True)


def pools_for_sdk(script):
    return [{"machine_spec": {"machine_type": "small"}, "replica_count": 1,
             "container_spec": {"image_uri": "test.local/python:1", "command": ["sh", "-c", script],
                                "args": [], "env": []}}]


def test_the_sdk_runs_a_custom_job(sdk, api):
    submitted = sdk.CustomJob(display_name="sdk", worker_pool_specs=pools_for_sdk(
        'echo "$AIP_MODEL_DIR"; echo model > "$AIP_MODEL_DIR/model.txt"'))
    submitted.run(timeout=60, restart_job_on_worker_restart=False)
    assert submitted.state.name == "JOB_STATE_SUCCEEDED"
    (seen,) = api.jobs()
    assert seen.name == submitted.resource_name
    # The SDK's own output directory has colons in its name.
    assert seen.messages("workerpool0-0")[0].count(":") >= 2
    assert [j.resource_name for j in sdk.CustomJob.list()] == [submitted.resource_name]
    submitted.delete()
    assert api.jobs() == []


def test_the_sdk_raises_what_went_wrong(sdk):
    submitted = sdk.CustomJob(display_name="sdk", worker_pool_specs=pools_for_sdk(
        "echo 'ValueError: no data' >&2; exit 1"))
    with pytest.raises(RuntimeError, match="Job failed with:\n(.|\n)*workerpool0-0 exited with a "
                                           "non-zero status of 1(.|\n)*ValueError: no data"):
        submitted.run()
    again = sdk.CustomJob.get(submitted.resource_name)
    assert again.error.code == 3


def test_the_sdk_cancels(sdk):
    submitted = sdk.CustomJob(display_name="sdk", worker_pool_specs=pools_for_sdk(WAIT))
    submitted.submit()
    submitted.cancel()
    wait_until(lambda: submitted.state.name == "JOB_STATE_CANCELLED", 20, "cancelled")
