import contextlib
import json
import os
import subprocess

import pytest
from musterd import BIN, Musterd


def pytest_collection_modifyitems(items):
    # The long ones first, so that two workers finish together.
    items.sort(key=lambda item: not (item.get_closest_marker("slow")
                                     or item.get_closest_marker("training")))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    setattr(item, f"report_{report.when}", report)
    return report


@pytest.fixture
def start_musterd(tmp_path, request):
    """Starts musterds; afterwards each is ended and nothing of it may be left."""
    started = []

    def start(config=None, data=None, **environment):
        directory = tmp_path / f"musterd{len(started)}"
        directory.mkdir()
        musterd = Musterd(directory, config, data)
        started.append(musterd)
        return musterd.start(**environment)

    yield start
    failed = getattr(request.node, "report_call", None) is None or request.node.report_call.failed
    try:
        for musterd in started:
            musterd.finish()
    except BaseException:
        failed = True
        raise
    finally:
        for musterd in started:
            with contextlib.suppress(Exception):
                musterd.destroy()
            if failed:
                print(f"---- musterd of {musterd.data}\n{musterd.log()[-20000:]}")
                for log in sorted(musterd.data.glob("jobs/*/*/*/agent.log")):
                    text = log.read_text(errors="replace")
                    if text:
                        print(f"---- {log.relative_to(musterd.data)}\n{text[-3000:]}")


@pytest.fixture
def musterd(start_musterd):
    return start_musterd()


@pytest.fixture
def api(musterd):
    return musterd.api


class Cli:
    """Runs `muster` as a user would, with nothing of this machine's settings."""

    def __init__(self, directory, address=None):
        self.directory = directory
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(directory), "LANG": "C.UTF-8",
            "MUSTER_PROJECT": "p", "MUSTER_REGION": "us-central1",
        }
        if address:
            self.environment["MUSTER_ENDPOINT"] = address

    def start(self, *arguments, **keywords):
        keywords.setdefault("cwd", self.directory)
        keywords.setdefault("stdin", subprocess.DEVNULL)
        environment = {**self.environment, **keywords.pop("environment", {})}
        return subprocess.Popen([BIN / "muster", *map(str, arguments)], env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                errors="replace", **keywords)

    def run(self, *arguments, timeout_s=60, **keywords):
        """Returns a CompletedProcess, whatever the exit code."""
        process = self.start(*arguments, **keywords)
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            pytest.fail(f"muster {arguments} did not end within {timeout_s} s\n{out}\n{err}")
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def ok(self, *arguments, **keywords):
        """Standard output of a run that must succeed."""
        result = self.run(*arguments, **keywords)
        assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
        return result.stdout

    def json(self, *arguments, **keywords):
        return json.loads(self.ok(*arguments, **keywords))


@pytest.fixture
def cli(tmp_path, musterd):
    home = tmp_path / "home"
    home.mkdir()
    return Cli(home, musterd.address)
