"""pythonPackageSpec: packages from gs:// or a local path, installed for the job alone."""

import subprocess

import pytest
from musterd import VENV
from specs import PYTHON_IMAGE, job, shell

MODULE = """
import json, os, sys
from trainer_pkg import helper
print("arguments", sys.argv[1:], flush=True)
print("helper", helper.VALUE, flush=True)
spec = json.loads(json.loads(os.environ["CLUSTER_SPEC"])["job"])
print("spec", spec["python_module"], spec["package_uris"], spec["job_args"], flush=True)
"""


@pytest.fixture(scope="session")
def sdist(tmp_path_factory):
    """A source distribution, as the SDK and gcloud make them."""
    source = tmp_path_factory.mktemp("package")
    (source / "setup.py").write_text(
        "from setuptools import setup\n"
        "setup(name='trainer-pkg', version='0.1', packages=['trainer_pkg'])\n")
    (source / "trainer_pkg").mkdir()
    (source / "trainer_pkg/__init__.py").write_text("")
    (source / "trainer_pkg/helper.py").write_text("VALUE = 'from the package'\n")
    (source / "trainer_pkg/task.py").write_text(MODULE)
    subprocess.run([VENV / "bin/python", "setup.py", "-q", "sdist"], cwd=source, check=True,
                   capture_output=True)
    (archive,) = (source / "dist").glob("*.tar.gz")
    return archive


def package_pool(uris, module="trainer_pkg.task", replicas=1, args=("--epochs=3",)):
    return {"replicaCount": replicas, "machineSpec": {"machineType": "small"},
            "pythonPackageSpec": {"executorImageUri": PYTHON_IMAGE, "packageUris": uris,
                                  "pythonModule": module, "args": list(args)}}


@pytest.mark.slow
@pytest.mark.parametrize("where", ["gs", "local"])
def test_a_package_is_installed_and_its_module_run(musterd, sdist, where):
    if where == "gs":
        bucket = musterd.data / "buckets/staging/dir"
        bucket.mkdir(parents=True)
        (bucket / sdist.name).write_bytes(sdist.read_bytes())
        uri = f"gs://staging/dir/{sdist.name}"
    else:
        uri = str(sdist)
    submitted = musterd.api.create(job(package_pool([uri]), package_pool([uri], replicas=2)))
    submitted.wait("SUCCEEDED", timeout_s=90)
    messages = submitted.messages("workerpool0-0")
    assert "arguments ['--epochs=3']" in messages
    assert "helper from the package" in messages
    assert f"spec trainer_pkg.task ['{uri}'] ['--epochs=3']" in messages
    again = subprocess.run([VENV / "bin/python", "-c", "import trainer_pkg"], capture_output=True)
    assert again.returncode != 0, "the image's own environment is as it was"
    left = [path for path in musterd.data.glob("jobs/*/python*") if path.is_dir()]
    assert not left, "the job's environment is gone"


def test_a_package_that_is_not_there_is_named(musterd):
    submitted = musterd.api.create(job(package_pool(["gs://staging/no-such-1.0.tar.gz"])))
    error = submitted.wait("FAILED")["error"]
    assert "gs://staging/no-such-1.0.tar.gz" in error["message"]


@pytest.mark.slow
def test_a_package_that_cannot_be_installed_says_why(musterd, tmp_path):
    broken = tmp_path / "broken-1.0.tar.gz"
    broken.write_bytes(b"this is no archive")
    submitted = musterd.api.create(job(package_pool([str(broken)]), shell("sleep 100")))
    error = submitted.wait("FAILED", timeout_s=60)["error"]
    assert "broken-1.0.tar.gz" in error["message"] and "workerpool0-0" in error["message"]


@pytest.mark.slow
def test_a_module_that_is_not_there(musterd, sdist):
    submitted = musterd.api.create(job(package_pool([str(sdist)], module="trainer_pkg.nonsense")))
    error = submitted.wait("FAILED", timeout_s=90)["error"]
    assert "trainer_pkg.nonsense" in error["message"]
