"""Requests that are wrong: an answer in the official form, and the service stays up."""

import socket

import pytest
import requests
from api import PARENT, ApiError
from specs import job, shell

JOBS = f"/v1/{PARENT}/customJobs"


@pytest.fixture(autouse=True)
def stays_up(api):
    yield
    assert api.healthy()
    api.create(job(shell("true"))).wait("SUCCEEDED")


def rejected(api, body, http_status=400, status="INVALID_ARGUMENT"):
    with pytest.raises(ApiError) as error:
        api.call("POST", JOBS, body)
    assert (error.value.http_status, error.value.status) == (http_status, status)
    assert api.list_all() == [], "nothing was created"
    return error.value.message


def custom_job(spec=None, **fields):
    return {"displayName": "x", "jobSpec": spec or job(shell("true")), **fields}


def changed(**pool_fields):
    pool = shell("true") | pool_fields
    return custom_job(job(pool))


def test_unknown_fields_are_named(api):
    assert "jobSpecc" in rejected(api, {"displayName": "x", "jobSpecc": {}})
    assert "replicas" in rejected(api, changed(replicas=3))


@pytest.mark.parametrize("body", [
    {"displayName": 5, "jobSpec": {}},
    {"displayName": "x", "jobSpec": []},
    {"displayName": "x", "jobSpec": {"workerPoolSpecs": {"a": 1}}},
    {"displayName": "x", "jobSpec": {"workerPoolSpecs": "none"}},
    {"displayName": "x", "labels": ["a"]},
    changed(replicaCount="many"),
    changed(replicaCount=1.5),
    changed(machineSpec={"machineType": "small", "acceleratorType": "NVIDIA_NONESUCH"}),
    [],
    "text",
    None,
])
def test_wrong_types(api, body):
    rejected(api, body)


@pytest.mark.parametrize("raw", [
    b"", b"{", b"{}}", b"\xff\xfe", b'{"displayName": "\xff"}', b"[" * 100_000, b"null", b"{'a': 1}",
    b'{"displayName": "x", "displayName": "y"}', b"\x00" * 10,
])
def test_bodies_that_are_no_json(api, raw):
    response = requests.post(api.url(JOBS), data=raw, timeout=10,
                             headers={"Content-Type": "application/json"})
    assert response.status_code == 400, response.text
    assert response.json()["error"]["status"] == "INVALID_ARGUMENT"


def test_a_body_of_ten_megabytes(api):
    message = rejected(api, changed(containerSpec={
        "imageUri": "test.local/python:1", "command": ["true"], "args": ["x" * (10 << 20)]}))
    assert "args" in message or "large" in message or "size" in message


def test_a_body_that_never_ends_is_cut_off(api):
    def endless():
        while True:
            yield b" " * (1 << 20)

    with pytest.raises(requests.exceptions.RequestException):
        response = requests.post(api.url(JOBS), data=endless(), timeout=30)
        assert response.status_code == 413, response.text
        raise requests.exceptions.RequestException("answered")


@pytest.mark.parametrize("count", ["0", "2", "-1"])
def test_pool_0_has_exactly_one_replica(api, count):
    message = rejected(api, changed(replicaCount=count))
    assert "job_spec.worker_pool_specs[0].replica_count" in message


def test_all_errors_at_once_in_the_official_form(api):
    body = {
        "displayName": "",
        "labels": {"Upper": "x"},
        "jobSpec": {"workerPoolSpecs": [
            {"replicaCount": "1", "machineSpec": {"machineType": "small", "acceleratorCount": 1},
             "containerSpec": {"imageUri": ""}},
            {"replicaCount": "1", "machineSpec": {}, "containerSpec": {"imageUri": "a"}},
            {"replicaCount": "1", "machineSpec": {"machineType": "small"}},
        ]},
    }
    message = rejected(api, body)
    assert message.startswith("List of found errors:\t1.Field: ")
    for field in ("display_name", "labels", "job_spec.worker_pool_specs[0].machine_spec",
                  "job_spec.worker_pool_specs[0].container_spec.image_uri",
                  "job_spec.worker_pool_specs[1].machine_spec.machine_type",
                  "job_spec.worker_pool_specs[2]"):
        assert field in message
    assert message.count("; Message: ") >= 6


@pytest.mark.parametrize("body, named", [
    (custom_job(job()), "worker_pool_specs"),
    (custom_job(job({})), "worker_pool_specs[0]"),
    (custom_job(displayName="x" * 129), "display_name"),
    (custom_job(job(shell("true", env=[{"name": "1A", "value": "x"}]))), "env"),
    (custom_job(job(shell("true", env=[{"name": f"A{i}", "value": ""} for i in range(101)]))), "env"),
    (custom_job(job(shell("true", machine="n1-standard-5"))), "n1-standard-4"),  # did you mean
    (custom_job(job(shell("true") | {"diskSpec": {"bootDiskSizeGb": 3}})), "boot_disk_size_gb"),
    (custom_job(job(shell("true"), scheduling={"timeout": "-5s"})), "timeout"),
    (custom_job(job(shell("true"), baseOutputDirectory={"outputUriPrefix": "s3://x"})),
     "base_output_directory"),
])
def test_rules_of_the_spec(api, body, named):
    assert named in rejected(api, body)


@pytest.mark.parametrize("filter_text", [
    "state=", "AND", "(state=JOB_STATE_FAILED", "no_such_field=1", 'display_name="unclosed',
    "state=JOB_STATE_NONESUCH", "create_time>yesterday", "display_name", "x" * 20_000,
    "(" * 5_000 + "state=JOB_STATE_FAILED" + ")" * 5_000, "state>JOB_STATE_FAILED",
])
def test_bad_filters(api, filter_text):
    with pytest.raises(ApiError) as error:
        api.list(filter=filter_text)
    assert error.value.status == "INVALID_ARGUMENT"
    assert error.value.message


@pytest.mark.parametrize("params", [
    {"pageToken": "rubbish"}, {"pageSize": "-1"}, {"pageSize": "many"}, {"readMask": "no_such_field"},
    {"noSuchParameter": "1"},
])
def test_bad_parameters_of_list(api, params):
    with pytest.raises(ApiError) as error:
        api.list(**params)
    assert error.value.status == "INVALID_ARGUMENT"


@pytest.mark.parametrize("method, path, http_status", [
    ("GET", f"{JOBS}/1", 404),
    ("DELETE", f"{JOBS}/1", 404),
    ("POST", f"{JOBS}/1:cancel", 404),
    ("GET", f"{JOBS}/not-a-number", 404),
    ("POST", f"{JOBS}/1:explode", 405),
    ("GET", "/v1/nothing/here", 404),
    ("GET", "/v1/%zz", 400),
    ("GET", "/v1/" + "a" * 20_000, 400),
    ("GET", f"/ui/{PARENT}/operations/1", 404),
    ("GET", f"/muster/v1/{PARENT}/customJobs/1", 404),
    ("GET", f"/muster/v1/{PARENT}/customJobs/1/logs", 404),
    ("GET", f"/muster/v1/{PARENT}/customJobs/1/logs:stream", 404),
    ("GET", f"/v1/{PARENT}/hyperparameterTuningJobs", 501),
])
def test_what_is_not_there(api, method, path, http_status):
    response = requests.request(method, api.url(path), json={} if method == "POST" else None,
                                timeout=10)
    assert response.status_code == http_status or (
        http_status == 400 and response.status_code in (404, 414, 431)), response.text
    if response.headers.get("Content-Type", "").startswith("application/json"):
        error = response.json()["error"]
        assert error["code"] == response.status_code and error["message"]


def test_clients_that_hang_or_talk_rubbish_do_not_disturb(api):
    host, _, port = api.address.rpartition(":")
    connections = [socket.create_connection((host, int(port))) for _ in range(50)]
    for number, connection in enumerate(connections):
        connection.sendall([b"", b"G", b"GET / HT", b"PRI * HTTP/2.0\r\n\r\n", b"\x16\x03\x01\x02",
                            b"\x00" * 100, b"POST /v1/x HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc",
                            ][number % 7])
    api.create(job(shell("true"))).wait("SUCCEEDED")
    for connection in connections:
        connection.close()
