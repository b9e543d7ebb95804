"""The three examples as CustomJobs, each through another door: REST, gRPC, the command line."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import clients
import pytest
import yaml
from api import PARENT
from musterd import ROOT, VENV

pytestmark = [pytest.mark.training, pytest.mark.timeout(240)]
EXAMPLES = ROOT / "examples"
TRAINING_TIMEOUT_S = 180


@pytest.fixture
def bucket(musterd):
    """gs://your-bucket with the programs, as the examples' README says."""
    directory = musterd.data / "buckets/your-bucket"
    directory.mkdir(parents=True)
    for program in EXAMPLES.glob("*/*.py"):
        shutil.copy(program, directory)
    return directory


def spec_of(name):
    return yaml.safe_load((EXAMPLES / name).read_text())


def accuracy(text):
    found = re.findall(r"accuracy on held-out images: ([\d.]+)", text)
    assert found, text
    return float(found[-1])


def saved_tensorflow_model(directory):
    names = {str(file.relative_to(directory)) for file in directory.rglob("*")}
    return {"saved_model.pb", "variables/variables.index"} <= names


def test_multi_worker_mirrored_through_rest(api, bucket):
    job = api.create(spec_of("tensorflow/mwms_images.yaml"))
    job.wait("SUCCEEDED", timeout_s=TRAINING_TIMEOUT_S)

    chief = "\n".join(job.messages("workerpool0-0"))
    assert "chief 0: one of 3 replicas" in chief
    assert accuracy(chief) > 0.95
    assert saved_tensorflow_model(bucket / "mwms_images/model")
    for index in (0, 1):
        worker = "\n".join(job.messages(f"workerpool1-{index}"))
        assert f"worker {index}: one of 3 replicas" in worker
        copy = re.search(r"saved a copy to (\S+)", worker)[1]
        assert f"removed {copy}" in worker
        assert not pathlib.Path(copy).exists()


@pytest.mark.parametrize("arguments", [[], ["--from-cluster-spec"]], ids=["master", "cluster_spec"])
def test_distributed_data_parallel_through_grpc(musterd, api, bucket, arguments):
    spec = spec_of("pytorch/ddp_digits.yaml")
    for pool in spec["workerPoolSpecs"]:
        pool["containerSpec"]["args"] = arguments
    client = clients.grpc_job_client(musterd.address)
    created = client.create_custom_job(
        parent=PARENT, custom_job={"display_name": "ddp", "job_spec": clients.to_proto_dict(spec)})
    job = next(job for job in api.jobs() if job.name == created.name)
    job.wait("SUCCEEDED", timeout_s=TRAINING_TIMEOUT_S)
    assert client.get_custom_job(name=created.name).state.name == "JOB_STATE_SUCCEEDED"

    chief = "\n".join(job.messages("workerpool0-0"))
    assert "rank 0 of 3" in chief
    assert accuracy(chief) > 0.95
    for rank in (1, 2):
        assert f"rank {rank} of 3" in "\n".join(job.messages(f"workerpool1-{rank - 1}"))
    metrics = json.loads((bucket / "ddp_digits/model/metrics.json").read_text())
    assert metrics["world_size"] == 3
    assert (bucket / "ddp_digits/model/model.pt").stat().st_size > 10_000


def test_parameter_servers_through_the_command_line(cli, api, bucket):
    out = cli.ok("custom-jobs", "create", "--region=us-central1", "--display-name=ps",
                 f"--config={EXAMPLES / 'tensorflow/parameter_server.yaml'}", "--wait",
                 timeout_s=TRAINING_TIMEOUT_S)
    assert "chief of 2 workers and 1 parameter servers" in out
    assert accuracy(out) > 0.95
    (job,) = api.jobs()
    assert job.state == "SUCCEEDED"
    assert saved_tensorflow_model(bucket / "parameter_server/model")
    results = bucket / "parameter_server/logs" / job.id / "evaluation.jsonl"
    steps = [json.loads(line)["step"] for line in results.read_text().splitlines()]
    assert steps == sorted(steps) and len(steps) >= 2
    assert (bucket / "parameter_server/checkpoints" / job.id / "checkpoint").is_file()
    # Workers and parameter servers serve for ever: Muster ended them.
    ends = {r["taskName"]: r["attempts"][-1]["cause"] for r in job.view()["replicas"]}
    assert ends["workerpool0-0"] == "EXITED"
    assert {ends[task] for task in ("workerpool1-0", "workerpool1-1", "workerpool2-0")} == {"STOPPED"}


def test_cassava_with_resnet50(api, bucket):
    """The codelab's data set and network, with random images in place of the download, and from
    scratch in place of ImageNet's weights. One step, one replica: it is to run, not to learn."""
    subprocess.run([VENV / "bin/python", pathlib.Path(__file__).parent / "cassava_standin.py",
                    bucket / "tfds"], check=True, capture_output=True, timeout=100)
    spec = spec_of("tensorflow/mwms_images.yaml")
    chief = spec["workerPoolSpecs"][0]
    chief["containerSpec"]["args"] = [
        "--dataset=cassava", "--data-dir=/gcs/your-bucket/tfds", "--model=resnet50",
        "--weights=none", "--image-size=32", "--batch-size=4", "--epochs=1", "--steps-per-epoch=1"]
    job = api.create({**spec, "workerPoolSpecs": [chief]})
    job.wait("SUCCEEDED", timeout_s=TRAINING_TIMEOUT_S)
    text = "\n".join(job.messages("workerpool0-0"))
    assert "epoch 1/1" in text and "trained resnet50 on cassava" in text
    assert saved_tensorflow_model(bucket / "mwms_images/model")


@pytest.mark.parametrize("program", ["tensorflow/mwms_images.py", "pytorch/ddp_digits.py"])
def test_examples_run_alone(program, tmp_path):
    """Without any service: the same program, one replica, the model in ./model."""
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("TF_CONFIG", "CLUSTER_SPEC", "MASTER_ADDR", "AIP_MODEL_DIR")}
    environment |= {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2", "OMP_NUM_THREADS": "1"}
    result = subprocess.run([VENV / "bin/python", EXAMPLES / program, "--epochs", "3"], cwd=tmp_path,
                            env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert accuracy(result.stdout) > 0.85
    assert any((tmp_path / "model").iterdir())
