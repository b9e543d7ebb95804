"""What a replica sees: variables, addresses, buckets, the network."""

import json
import os
import pathlib
import socket

import pytest
from musterd import VENV
from specs import job, pool, python, shell

# Each replica leaves its environment in the job's bucket.
DUMP = """
import json, os, sys
me = json.loads(os.environ["CLUSTER_SPEC"])["task"]
file = os.path.join(os.environ["AIP_MODEL_DIR"], f"{me['type']}-{me['index']}.json")
json.dump({"environ": dict(os.environ), "argv": sys.argv, "cwd": os.getcwd(),
           "interpreter": sys.executable, "prefix": sys.prefix}, open(file + ".tmp", "w"))
os.rename(file + ".tmp", file)
"""
# The primary leaves last.
DUMP_AND_WAIT = DUMP + """
import time
deadline = time.monotonic() + 20
while len([f for f in os.listdir(os.environ["AIP_MODEL_DIR"]) if f.endswith(".json")]) < REPLICAS:
    if time.monotonic() > deadline: sys.exit("a replica is missing")
    time.sleep(0.02)
"""


def run_and_read(musterd, pools, **fields):
    """Runs a job of DUMPs; returns {"workerpool0-0": {environ, argv, …}}."""
    count = sum(int(p.get("replicaCount", 0)) for p in pools)
    primary = pools[0]["containerSpec"]["command"]
    primary[primary.index("-c") + 1] = f"REPLICAS = {count}\n" + DUMP_AND_WAIT
    submitted = musterd.api.create(job(*pools, **fields))
    submitted.wait("SUCCEEDED")
    directory = submitted.view()["modelDirectory"]
    files = pathlib.Path(directory).glob("*.json")
    return submitted, {file.stem: json.loads(file.read_text()) for file in files}


OUT = {"baseOutputDirectory": {"outputUriPrefix": "gs://bucket-1/out:put/run 1"}}


def test_all_four_pools_know_the_cluster(musterd):
    submitted, seen = run_and_read(
        musterd, [python(DUMP), python(DUMP, replicas=2), python(DUMP), python(DUMP)], **OUT)
    assert set(seen) == {"workerpool0-0", "workerpool1-0", "workerpool1-1", "workerpool2-0",
                         "workerpool3-0"}

    specs = {task: json.loads(r["environ"]["CLUSTER_SPEC"]) for task, r in seen.items()}
    cluster = specs["workerpool0-0"]["cluster"]
    assert {pool: len(addresses) for pool, addresses in cluster.items()} == {
        "workerpool0": 1, "workerpool1": 2, "workerpool2": 1, "workerpool3": 1}
    assert all(spec["cluster"] == cluster for spec in specs.values())
    addresses = [address for pool in cluster.values() for address in pool]
    assert len(set(addresses)) == 5
    for task, spec in specs.items():
        name, _, index = task.rpartition("-")
        assert spec["task"] == {"type": name, "index": int(index)}
        assert spec["environment"] == "cloud"
        assert json.loads(spec["job"])["python_module"] == ""

    configs = {task: json.loads(r["environ"]["TF_CONFIG"]) for task, r in seen.items()}
    tf_cluster = {"chief": cluster["workerpool0"], "worker": cluster["workerpool1"],
                  "ps": cluster["workerpool2"]}
    assert all(config["cluster"] == tf_cluster for config in configs.values())
    roles = {task: (c["task"]["type"], c["task"]["index"]) for task, c in configs.items()}
    assert roles == {"workerpool0-0": ("chief", 0), "workerpool1-0": ("worker", 0),
                     "workerpool1-1": ("worker", 1), "workerpool2-0": ("ps", 0),
                     "workerpool3-0": ("evaluator", 0)}

    master = {(r["environ"]["MASTER_ADDR"], r["environ"]["MASTER_PORT"]) for r in seen.values()}
    assert len(master) == 1
    assert master.pop()[1] not in {address.rpartition(":")[2] for address in addresses}
    ranked = ("workerpool0-0", "workerpool1-0", "workerpool1-1", "workerpool2-0")
    assert {seen[task]["environ"]["WORLD_SIZE"] for task in ranked} == {"4"}
    assert "RANK" not in seen["workerpool3-0"]["environ"], "evaluators are not counted"
    ranks = [seen[task]["environ"]["RANK"] for task in ranked]
    assert ranks == ["0", "1", "2", "3"]

    for replica in seen.values():
        environ = replica["environ"]
        assert environ["CLOUD_ML_JOB_ID"] == submitted.id
        assert environ["CLOUD_ML_REGION"] == "us-central1"
        assert environ["CLOUD_ML_PROJECT_ID"].isdigit()
        assert environ["GOOGLE_CLOUD_PROJECT"] in ("p", environ["CLOUD_ML_PROJECT_ID"])
        assert environ["AIP_MODEL_DIR"].endswith("/out:put/run 1/model/")
        assert environ["AIP_CHECKPOINT_DIR"].endswith("/out:put/run 1/checkpoints/")
        assert environ["AIP_TENSORBOARD_LOG_DIR"].endswith("/out:put/run 1/logs/")


def test_one_replica_has_no_tf_config(musterd):
    _, seen = run_and_read(musterd, [python(DUMP)], **OUT)
    environ = seen["workerpool0-0"]["environ"]
    assert set(json.loads(environ["CLUSTER_SPEC"])["cluster"]) == {"workerpool0"}
    for name in ("TF_CONFIG", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"):
        assert name not in environ


def test_an_empty_pool_keeps_the_others_places(musterd):
    _, seen = run_and_read(musterd, [python(DUMP), {}, python(DUMP)], **OUT)
    assert set(seen) == {"workerpool0-0", "workerpool2-0"}
    config = json.loads(seen["workerpool2-0"]["environ"]["TF_CONFIG"])
    assert config["task"]["type"] == "ps" and set(config["cluster"]) == {"chief", "ps"}


def test_variables_expand_in_env_args_and_command(musterd):
    primary = python(DUMP, "$(GREETING)", "$$(GREETING)", "$(NOBODY)")
    primary["containerSpec"] |= {
        "args": ["--model=$(AIP_MODEL_DIR)", "--id=$(CLOUD_ML_JOB_ID)"],
        "env": [{"name": "GREETING", "value": "hello"},
                {"name": "LONGER", "value": "$(GREETING), $(CLOUD_ML_REGION)! $(LATER)"},
                {"name": "LATER", "value": "x"}]}
    submitted, seen = run_and_read(musterd, [primary], **OUT)
    environ, argv = seen["workerpool0-0"]["environ"], seen["workerpool0-0"]["argv"]
    assert environ["LONGER"] == "hello, us-central1! $(LATER)"
    assert argv[1:4] == ["hello", "$(GREETING)", "$(NOBODY)"]
    assert argv[4:] == [f"--model={environ['AIP_MODEL_DIR']}", f"--id={submitted.id}"]


def test_nothing_of_musterds_own_environment_is_inherited(start_musterd):
    musterd = start_musterd(SECRET_OF_MUSTERD="1", TF_CONFIG="{}")
    _, seen = run_and_read(musterd, [python(DUMP)], **OUT)
    environ = seen["workerpool0-0"]["environ"]
    assert "SECRET_OF_MUSTERD" not in environ and "TF_CONFIG" not in environ
    assert environ["TMPDIR"].startswith(str(musterd.data))


def test_gcs_paths_are_visible(start_musterd, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "dir").mkdir(parents=True)
    (elsewhere / "input.txt").write_text("what is in the bucket")
    musterd = start_musterd({"buckets": {"mine": str(elsewhere)}})
    submitted = musterd.api.create(job(
        shell("cat /gcs/mine/input.txt; echo written > /gcs/mine/dir/output.txt")))
    submitted.wait("SUCCEEDED")
    assert "what is in the bucket" in submitted.messages("workerpool0-0")
    assert (elsewhere / "dir/output.txt").read_text() == "written\n"


def test_the_network_is_the_jobs_own(musterd):
    """A server on every interface is reached by the job's replicas, and by nobody else."""
    server = """
import json, os, socket
port = int(json.loads(os.environ["CLUSTER_SPEC"])["cluster"]["workerpool1"][0].rpartition(":")[2])
listener = socket.create_server(("", port))
print("listening", port, sorted(os.listdir("/sys/class/net")), flush=True)
print(open("/proc/net/dev").read().count(":"), "interfaces", flush=True)
while True:
    connection, _ = listener.accept()
    connection.sendall(b"hello from the worker")
    connection.close()
"""
    client = """
import json, os, socket, sys, time
host, _, port = json.loads(os.environ["CLUSTER_SPEC"])["cluster"]["workerpool1"][0].rpartition(":")
deadline = time.monotonic() + 20
while True:
    try:
        connection = socket.create_connection((host, int(port)), 5)
        break
    except OSError as error:
        if time.monotonic() > deadline: raise
        time.sleep(0.05)
print(connection.recv(100).decode(), flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.02)
"""
    release = musterd.directory / "release"
    submitted = musterd.api.create(job(python(client, str(release)), python(server)))
    submitted.wait_for_line("hello from the worker", "workerpool0-0")
    if submitted.view()["network"] != "private":
        release.touch()
        pytest.skip("this machine does not permit network namespaces")
    port = int(submitted.wait_for_line("listening", "workerpool1-0").split()[1])
    assert "1 interfaces" in submitted.messages("workerpool1-0")
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), 2).close()
    release.touch()
    submitted.wait("SUCCEEDED")


def test_prebuilt_images_mean_the_first_python_on_the_path(start_musterd, tmp_path):
    """An active virtual environment just works, without any configuration."""
    musterd = start_musterd({"images": []}, PATH=f"{VENV}/bin:{os.environ['PATH']}")
    image = "us-docker.pkg.dev/vertex-ai/training/pytorch-cpu.2-4.py310:latest"
    submitted = musterd.api.create(job(python("import sys; print(sys.prefix)", image=image)))
    submitted.wait("SUCCEEDED")
    assert str(VENV) in submitted.messages("workerpool0-0")


def test_an_image_without_a_mapping_shows_the_line_to_add(api):
    submitted = api.create(job(pool(["true"], image="gcr.io/mine/trainer:v3")))
    ended = submitted.wait("FAILED")
    message = ended["error"]["message"]
    assert "gcr.io/mine/trainer:v3" in message
    assert 'pattern: "gcr.io/mine/trainer:v3"' in message and "images" in message
