"""The `muster` command, as a person and as a script use it."""

import json
import os
import re
import signal
import subprocess

import pytest
import yaml
from api import Job
from musterd import BIN, VENV
from specs import WAIT, job, python, shell
from waiting import wait_until

CREATE = ("custom-jobs", "create", "--region=us-central1")


@pytest.fixture
def config_file(cli):
    def write(spec, name="job.yaml"):
        path = cli.directory / name
        path.write_text(yaml.safe_dump(spec))
        return f"--config={path}"

    return write


def test_create_says_what_to_do_next(cli, api, config_file):
    result = cli.run(*CREATE, "--display-name=first", config_file(job(shell("true"))))
    assert result.returncode == 0, result.stderr
    (submitted,) = api.jobs()
    said = result.stdout + result.stderr
    assert f"CustomJob [{submitted.name}] is submitted successfully." in said
    assert f"custom-jobs describe {submitted.name}" in said
    assert f"custom-jobs stream-logs {submitted.name}" in said
    assert submitted.get()["displayName"] == "first"


@pytest.mark.parametrize("script, status, state", [
    ("echo fine", 0, "SUCCEEDED"), ("echo bad >&2; exit 4", 1, "FAILED")])
def test_the_exit_code_of_wait_follows_the_job(cli, api, config_file, script, status, state):
    result = cli.run(*CREATE, "--display-name=x", config_file(job(shell(script))), "--wait")
    assert result.returncode == status, result.stderr
    said = result.stdout + result.stderr
    assert ("fine" if status == 0 else "exited with a non-zero status of 4") in said
    assert state in said
    assert api.jobs()[0].state == state


def test_wait_of_a_job_that_is_cancelled(cli, api, config_file):
    process = cli.start(*CREATE, "--display-name=x", config_file(job(shell(WAIT))), "--wait")
    submitted = wait_until(api.jobs, 10, "a job")[0]
    submitted.wait("RUNNING")
    cli.ok("custom-jobs", "cancel", submitted.id)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 3, err
    submitted.wait("CANCELLED")


def test_worker_pool_specs_in_gclouds_grammar(cli, api):
    cli.ok(*CREATE, "--display-name=flags",
           "--worker-pool-spec=machine-type=small,replica-count=1,"
           "container-image-uri=test.local/python:1",
           "--worker-pool-spec=",
           "--worker-pool-spec=replica-count=2,machine-type=n1-standard-4,"
           "accelerator-type=NVIDIA_TESLA_T4,accelerator-count=1,"
           "container-image-uri=test.local/python:1",
           "--command=sh,-c,echo \"$0\"", "--args=one,two", "--labels=a=b,c=d")
    (submitted,) = api.jobs()
    got = submitted.get()
    assert got["labels"] == {"a": "b", "c": "d"}
    first, second, third = got["jobSpec"]["workerPoolSpecs"]
    assert first["containerSpec"]["command"] == ["sh", "-c", 'echo "$0"']
    assert first["containerSpec"]["args"] == ["one", "two"]
    assert "containerSpec" not in second
    assert third["replicaCount"] == "2"
    assert third["machineSpec"] == {"machineType": "n1-standard-4", "acceleratorCount": 1,
                                    "acceleratorType": "NVIDIA_TESLA_T4"}
    submitted.wait("SUCCEEDED")


@pytest.mark.parametrize("spec, message", [
    ("replica-count=1,container-image-uri=x",
     "Key [machine-type] required in dict arg but not provided."),
    ("machine-type=small,accelerator-count=1,container-image-uri=x",
     "Key [accelerator-type] required as [accelerator-count] is specified."),
    ("machine-type=small", "Exactly one of keys [executor-image-uri, container-image-uri] is required."),
    ("machine-type=small,nonsense=1,container-image-uri=x", "nonsense"),
])
def test_mistakes_in_gclouds_words(cli, api, spec, message):
    result = cli.run(*CREATE, "--display-name=x", f"--worker-pool-spec={spec}")
    assert result.returncode != 0
    assert message in result.stderr
    assert api.jobs() == []


def test_the_servers_errors_reach_the_user(cli, config_file):
    spec = job(shell("true") | {"replicaCount": 2})
    result = cli.run(*CREATE, "--display-name=x", config_file(spec))
    assert result.returncode == 1
    assert "job_spec.worker_pool_specs[0].replica_count" in result.stderr


def test_config_pools_as_a_mapping_and_as_json(cli, api, config_file):
    """Google's docs show workerPoolSpecs as one mapping; JSON is YAML too."""
    pool = shell("true")
    cli.ok(*CREATE, "--display-name=mapping", config_file({"workerPoolSpecs": pool}))
    path = cli.directory / "job.json"
    path.write_text(json.dumps(job(pool)))
    cli.ok(*CREATE, "--display-name=json", f"--config={path}")
    for submitted in api.jobs():
        submitted.wait("SUCCEEDED")


def test_list_describe_and_stream_logs(cli, api, config_file):
    for name in ("one", "two"):
        cli.ok(*CREATE, f"--display-name={name}", config_file(job(shell(f"echo from {name}"))))
    two, one = api.jobs()
    one.wait("SUCCEEDED")
    two.wait("SUCCEEDED")
    table = cli.ok("custom-jobs", "list")
    assert re.search(rf"{two.id}\s+two\s+SUCCEEDED", table), table
    assert table.index("two") < table.index("one")
    assert "\033" not in table, "no colours in a pipe"
    listed = cli.json("custom-jobs", "list", "--format=json")
    assert [entry["displayName"] for entry in listed] == ["two", "one"]
    filtered = cli.ok("custom-jobs", "list", "--filter=display_name=one")
    assert "one" in filtered and "two" not in filtered

    described = yaml.safe_load(cli.ok("custom-jobs", "describe", one.id, "--format=yaml"))
    assert described["name"] == one.name and described["state"] == "JOB_STATE_SUCCEEDED"
    assert "from one" in cli.ok("custom-jobs", "stream-logs", one.id)
    only_service = cli.ok("custom-jobs", "stream-logs", one.name, "--task-name=service")
    assert "from one" not in only_service and "Job completed successfully." in only_service


def test_stream_logs_ends_with_the_job(cli, api, tmp_path):
    release = tmp_path / "release"
    submitted = api.create(job(shell(f"echo begin; while [ ! -e {release} ]; do sleep 0.02; done; "
                                     "echo finish")))
    process = cli.start("custom-jobs", "stream-logs", submitted.id)
    for line in process.stdout:
        if "begin" in line:
            break
    release.touch()
    rest = process.stdout.read()  # what was read ahead too, unlike communicate()
    assert process.wait(20) == 0, process.stderr.read()
    assert "finish" in rest


def test_stream_logs_goes_on_when_musterd_comes_back(cli, musterd):
    """Found through the data directory, since the port may change."""
    cli.environment.pop("MUSTER_ENDPOINT")
    cli.environment["MUSTER_DATA_DIR"] = str(musterd.data)
    submitted = musterd.api.create(job(python(
        "import time\nfor n in range(150): print('line', n, flush=True); time.sleep(0.02)")))
    process = cli.start("custom-jobs", "stream-logs", submitted.id)
    for line in process.stdout:
        if "line 20" in line:
            break
    musterd.restart()
    rest = process.stdout.read()  # what was read ahead too, unlike communicate()
    assert process.wait(20) == 0, process.stderr.read()
    printed = [int(n) for n in re.findall(r"line (\d+)", rest)]
    assert printed == list(range(21, 150))


def test_cancel_and_delete(cli, api):
    submitted = api.create(job(shell(WAIT)))
    submitted.wait("RUNNING")
    cli.ok("custom-jobs", "cancel", submitted.id)
    submitted.wait("CANCELLED")
    cli.ok("custom-jobs", "delete", submitted.id)
    assert api.jobs() == []


def test_run_is_the_shortest_way(cli, api, musterd):
    """This directory and this environment, chief and workers, followed to the end."""
    program = cli.directory / "train.py"
    program.write_text(
        "import helper, json, os, sys\n"
        "task = json.loads(os.environ['TF_CONFIG'])['task']\n"
        "print('I am', task['type'], task['index'], sys.argv[1:], helper.VALUE, sys.prefix)\n")
    (cli.directory / "helper.py").write_text("VALUE = 'from beside it'\n")
    path = f"{VENV}/bin:{os.environ['PATH']}"
    out = cli.ok("run", "--workers", "2", "--", "python", "train.py", "--epochs", "3",
                 environment={"PATH": path})
    assert f"I am chief 0 ['--epochs', '3'] from beside it {VENV}" in out
    submitted = api.jobs()[0]
    assert submitted.state == "SUCCEEDED"
    assert len(submitted.view()["replicas"]) == 3


def test_run_fails_as_the_program_does(cli):
    result = cli.run("run", "--", "sh", "-c", "echo oh no >&2; exit 7")
    assert result.returncode == 1
    assert "oh no" in result.stdout + result.stderr
    assert "status of 7" in result.stdout + result.stderr


def test_runs_yaml_is_the_same_job(cli, api):
    arguments = ("--workers=1", "--", "sh", "-c", "echo 'a $(HOME) \"b\" é'; exit 0")
    printed = cli.ok("run", "--print-yaml", *arguments)
    assert api.jobs() == [], "nothing was submitted"
    path = cli.directory / "printed.yaml"
    path.write_text(printed)
    cli.ok("custom-jobs", "create", "--display-name=printed", f"--config={path}", "--wait")
    cli.ok("run", *arguments)
    direct, from_yaml = (submitted.get()["jobSpec"] for submitted in api.jobs())
    for spec in (direct, from_yaml):
        spec.pop("baseOutputDirectory", None)  # holds the time
    assert direct == from_yaml


def test_run_passes_the_command_on_as_it_was_typed(cli):
    """$(…) and $$ are the shell's here, though a CustomJob expands them."""
    out = cli.ok("run", "--", "sh", "-c", "A=b; echo $(echo inner) $A ${A}c; kill -0 $$ && "
                 "echo alive")
    assert "inner" in out and "b bc" in out and "alive" in out


def test_ctrl_c_of_run_cancels_the_job(cli, api):
    process = cli.start("run", "--workers=1", "--", "sh", "-c", WAIT, start_new_session=True)
    submitted = wait_until(api.jobs, 10, "a job")[0]
    submitted.wait_for_line("ready", "workerpool0-0")
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode != 0
    submitted.wait("CANCELLED")


def test_without_a_server_the_message_helps(cli):
    cli.environment.pop("MUSTER_ENDPOINT")
    result = cli.run("custom-jobs", "list")
    assert result.returncode == 1
    assert "musterd" in result.stderr
    cli.environment["MUSTER_ENDPOINT"] = "127.0.0.1:1"
    result = cli.run("custom-jobs", "list")
    assert result.returncode == 1 and "127.0.0.1:1" in result.stderr


@pytest.mark.parametrize("arguments, near", [
    (("custom-jbos", "list"), "custom-jobs"),
    (("custom-jobs", "crate"), "create"),
    (("custom-jobs", "create", "--dislpay-name=x"), "--display-name"),
    ((), "custom-jobs"),
])
def test_typing_mistakes(cli, arguments, near):
    result = cli.run(*arguments)
    assert result.returncode == 2
    assert near in result.stderr + result.stdout


def test_help_everywhere(cli):
    for words in ((), ("custom-jobs",), ("custom-jobs", "create"), ("custom-jobs", "list"),
                  ("custom-jobs", "describe"), ("custom-jobs", "cancel"), ("custom-jobs", "delete"),
                  ("custom-jobs", "stream-logs"), ("run",)):
        assert cli.ok(*words, "--help").strip()
    assert re.search(r"\d+\.\d+", cli.ok("version"))


def test_completion_in_bash(cli):
    script = cli.ok("completion", "bash")
    completed = subprocess.run(
        ["bash", "--norc", "-c", script + """
complete_words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
  COMPREPLY=(); "$(complete -p muster | sed -n 's/.*-F \\([^ ]*\\).*/\\1/p')" muster; echo "${COMPREPLY[@]}"; }
complete_words muster custom-
complete_words muster custom-jobs cr
complete_words muster custom-jobs create --disp
"""], capture_output=True, text=True, timeout=20,
        env={**cli.environment, "PATH": f"{BIN}:{os.environ['PATH']}"})
    first, second, third = completed.stdout.splitlines()
    assert first.strip() == "custom-jobs", completed.stderr
    assert second.strip() == "create"
    assert third.strip().startswith("--display-name")


def test_names_from_flags_win_over_the_environment(cli, api):
    cli.ok("custom-jobs", "create", "--project=elsewhere", "--region=europe-west4",
           "--display-name=x", "--worker-pool-spec=machine-type=small,"
           "container-image-uri=test.local/python:1", "--command=true")
    assert api.jobs() == []
    (other,) = api.list_all(parent="projects/elsewhere/locations/europe-west4")
    assert other["displayName"] == "x"
    Job(api, other["name"]).wait("SUCCEEDED")
