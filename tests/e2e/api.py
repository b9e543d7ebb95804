"""musterd's REST API as a test uses it: no client library, so that a test says what is sent."""

import json

import requests
from waiting import wait_until

PARENT = "projects/p/locations/us-central1"
TERMINAL = {"JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED"}


class ApiError(Exception):
    """An answer that is not 2xx, in the official form."""

    def __init__(self, response):
        self.http_status = response.status_code
        self.body = response.json()
        error = self.body["error"]
        assert error["code"] == response.status_code, self.body
        assert set(error) <= {"code", "message", "status", "details"}, self.body
        self.status = error["status"]
        self.message = error["message"]
        super().__init__(f"{response.status_code} {self.status}: {self.message}")


class Api:
    def __init__(self, address):
        self.address = address
        self.session = requests.Session()

    def url(self, path):
        return f"http://{self.address}{path}"

    def call(self, method, path, body=None, **keywords):
        keywords.setdefault("timeout", 30)
        response = self.session.request(method, self.url(path), json=body, **keywords)
        if not response.ok:
            raise ApiError(response)
        return response.json() if response.content else None

    def get(self, path, **params):
        return self.call("GET", path, params=params)

    def create(self, spec, display_name="test", parent=PARENT, **fields):
        """Submits a CustomJobSpec; returns a Job."""
        body = {"displayName": display_name, "jobSpec": spec, **fields}
        return Job(self, self.call("POST", f"/v1/{parent}/customJobs", body)["name"])

    def list(self, parent=PARENT, **params):
        return self.get(f"/v1/{parent}/customJobs", **params)

    def list_all(self, parent=PARENT, **params):
        """All pages as one list."""
        jobs, token = [], None
        while token != "":
            page = self.list(parent, **params, **({"pageToken": token} if token else {}))
            jobs += page.get("customJobs", [])
            token = page.get("nextPageToken", "")
        return jobs

    def jobs(self):
        return [Job(self, job["name"]) for job in self.list_all()]

    def healthy(self):
        return self.session.get(self.url("/healthz"), timeout=5).ok

    def metrics(self):
        response = self.session.get(self.url("/metrics"), timeout=5)
        response.raise_for_status()
        return response.text


class Job:
    def __init__(self, api, name):
        self.api = api
        self.name = name

    @property
    def id(self):
        return self.name.rpartition("/")[2]

    def get(self):
        return self.api.get(f"/v1/{self.name}")

    @property
    def state(self):
        return self.get()["state"].removeprefix("JOB_STATE_")

    def view(self):
        return self.api.get(f"/muster/v1/{self.name}")

    def replica(self, task_name):
        return next(r for r in self.view()["replicas"] if r["taskName"] == task_name)

    def cancel(self):
        return self.api.call("POST", f"/v1/{self.name}:cancel", {})

    def delete(self):
        return self.api.call("DELETE", f"/v1/{self.name}")

    def wait(self, *states, timeout_s=30):
        """Until the job is in one of the states (default: any terminal one); returns it."""
        wanted = {f"JOB_STATE_{state}" for state in states} or TERMINAL
        seen = {}

        def reached():
            seen.update(self.get())
            if seen["state"] in wanted:
                return dict(seen)
            assert seen["state"] not in TERMINAL, (
                f"{self.name} ended as {seen['state']}, not {wanted}: {seen.get('error')}\n"
                f"{self.log_text()}")
            return None

        return wait_until(reached, timeout_s, lambda: f"{wanted} but {seen['state']} "
                          f"({self.view().get('waitingReason')})\n{self.log_text()}")

    def wait_for_line(self, text, task=None, timeout_s=30):
        """Until a log line holds `text`; returns its message."""

        def found():
            return next((m for m in self.messages(task) if text in m), None)

        return wait_until(found, timeout_s, lambda: f"in the log: {text}\n{self.log_text()}")

    def entries(self, task=None, page_size=10000):
        """All log entries up to now."""
        token, entries = "", []
        while True:
            params = {"pageSize": page_size, "pageToken": token}
            if task:
                params["taskName"] = task
            page = self.api.get(f"/muster/v1/{self.name}/logs", **params)
            assert page["nextPageToken"], "a cursor is always given"
            entries += page.get("entries", [])
            if not page.get("entries"):
                return entries
            token = page["nextPageToken"]

    def messages(self, task=None):
        return [entry.get("message", "") for entry in self.entries(task)]

    def log_text(self):
        return "\n".join(f"{e['taskName']}| {e.get('message', '')}" for e in self.entries())[-8000:]

    def stream(self, last_event_id=None, task=None, timeout_s=30):
        """Server-sent events: yields (id, entry) until the stream ends."""
        headers = {"Accept": "text/event-stream"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        params = {"taskName": task} if task else {}
        with requests.get(self.api.url(f"/muster/v1/{self.name}/logs:stream"), headers=headers,
                          params=params, stream=True, timeout=timeout_s) as response:
            assert response.ok, response.text
            assert response.headers["Content-Type"].startswith("text/event-stream")
            event = {}
            for raw in response.iter_lines(chunk_size=1 << 16, delimiter=b"\n"):
                line = raw.decode()
                if line == "":
                    if "data" in event:
                        yield event.get("event"), event.get("id"), json.loads(event["data"])
                    event = {}
                elif not line.startswith(":"):
                    field, _, value = line.partition(":")
                    event[field] = value.removeprefix(" ")
