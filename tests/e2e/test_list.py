"""Listing: order, pages, filters, read masks."""

import pytest
from specs import job, pool, shell


@pytest.fixture
def jobs(api):
    """job-0 … job-11: even ones succeed, odd ones fail; labels kind=a|b, and n on the first five."""
    made = []
    for number in range(12):
        labels = {"kind": "ab"[number % 3 == 0]} | ({"n": str(number)} if number < 5 else {})
        made.append(api.create(job(pool(["true" if number % 2 == 0 else "false"])), f"job-{number}",
                               labels=labels))
    for number, submitted in enumerate(made):
        submitted.wait("SUCCEEDED" if number % 2 == 0 else "FAILED")
    return made


def names(jobs):
    return [j["displayName"] for j in jobs]


def test_newest_first_in_pages(api, jobs):
    everything = names(api.list()["customJobs"])
    assert everything == [f"job-{n}" for n in reversed(range(12))]
    page = api.list(pageSize=5)
    assert names(page["customJobs"]) == everything[:5]
    api.create(job(pool(["true"])), "newer").wait("SUCCEEDED")
    second = api.list(pageSize=5, pageToken=page["nextPageToken"])
    assert names(second["customJobs"]) == everything[5:10], "a page stays where it was"
    third = api.list(pageSize=5, pageToken=second["nextPageToken"])
    assert names(third["customJobs"]) == everything[10:]
    assert not third.get("nextPageToken")


@pytest.mark.parametrize("text, expected", [
    ("state=JOB_STATE_FAILED", range(1, 12, 2)),
    ('state="JOB_STATE_FAILED"', range(1, 12, 2)),
    ("state!=JOB_STATE_FAILED", range(0, 12, 2)),
    ("display_name=job-3", [3]),
    ('displayName="job-3" OR display_name="job-4"', [3, 4]),
    ("display_name:job-1*", [1, 10, 11]),
    ("display_name!=job-0 AND display_name:*job* AND NOT state=JOB_STATE_FAILED", range(2, 12, 2)),
    ("labels.kind=b", range(0, 12, 3)),
    ("labels.n:*", range(5)),
    ("NOT labels.n:* AND labels.kind=a", [n for n in range(5, 12) if n % 3]),
    ("(labels.kind=a OR labels.n=3) AND state=JOB_STATE_FAILED", [1, 3, 5, 7, 11]),
    ('create_time>"2020-01-01T00:00:00Z"', range(12)),
    ('create_time<"2020-01-01T00:00:00Z"', []),
])
def test_filters(api, jobs, text, expected):
    assert sorted(names(api.list_all(filter=text, pageSize=4)), key=lambda n: int(n[4:])) == [
        f"job-{n}" for n in expected]


def test_create_time_splits_the_list(api, jobs):
    middle = jobs[6].get()["createTime"]
    assert len(api.list_all(filter=f'create_time>="{middle}"')) == 6
    assert len(api.list_all(filter=f'create_time<"{middle}"')) == 6


def test_read_mask(api, jobs):
    page = api.list(readMask="name,displayName", pageSize=2)
    assert all(set(j) == {"name", "displayName"} for j in page["customJobs"])
    page = api.list(readMask="name,job_spec.worker_pool_specs", pageSize=1)
    assert set(page["customJobs"][0]) == {"name", "jobSpec"}


def test_locations_and_projects_are_apart(api, jobs):
    other = "projects/other/locations/europe-west4"
    assert api.list_all(parent=other) == []
    api.create(job(shell("true")), "elsewhere", parent=other).wait("SUCCEEDED")
    assert names(api.list_all(parent=other)) == ["elsewhere"]
    assert len(api.list_all()) == 12


@pytest.mark.parametrize("query, state", [
    ({}, "JOB_STATE_SUCCEEDED"),
    ({"alt": "json"}, "JOB_STATE_SUCCEEDED"),
    ({"$alt": "json;enum-encoding=int"}, 4),
])
def test_enums_as_asked(api, jobs, query, state):
    assert api.get(f"/v1/{jobs[0].name}", **query)["state"] == state
    assert api.get(f"/v1beta1/{jobs[0].name}", **query)["state"] == state
    assert isinstance(jobs[0].get()["jobSpec"]["workerPoolSpecs"][0]["replicaCount"], str)
