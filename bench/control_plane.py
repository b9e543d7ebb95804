#!/usr/bin/env python3
"""Measures the control plane: starting jobs, the API, the log; and Ray beside it.

    make bench                                  # or, with build/venv's Python:
    bench/control_plane.py --only submit,creates --repeat 50

Prints a table and writes build/bench/control_plane.json, a list of
{"measure", "system", "value", "unit", "limit", …parameters}; `limit` is what the measure must keep
to, or null. Every musterd is the bench's own, on a free loopback port with a temporary data
directory.
"""

import argparse
import contextlib
import http.client
import json
import multiprocessing
import os
import pathlib
import shutil
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/e2e"))

import leaks  # noqa: E402
import requests  # noqa: E402
from api import PARENT  # noqa: E402
from musterd import BIN, Musterd  # noqa: E402
from specs import job, python, shell  # noqa: E402
from waiting import wait_until  # noqa: E402

JOBS = f"/v1/{PARENT}/customJobs"
TICKS = os.sysconf("SC_CLK_TCK")


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", help="some of: " + ",".join(MEASURES))
    parser.add_argument("--repeat", type=int, default=30, help="jobs for the start-up times")
    parser.add_argument("--clients", type=int, default=4, help="at once, for creates per second")
    parser.add_argument("--creates", type=int, default=4000)
    parser.add_argument("--jobs", type=int, default=100_000, help="in the list")
    parser.add_argument("--log-seconds", type=float, default=8)
    parser.add_argument("--without-ray", action="store_true")
    parser.add_argument("--ray-repeat", type=int, default=3)
    parser.add_argument("--output", type=pathlib.Path,
                        default=ROOT / "build/bench/control_plane.json")
    return parser.parse_args()


class Report:
    def __init__(self):
        self.rows = []

    def add(self, measure, system, value, unit, limit=None, **parameters):
        self.rows.append({"measure": measure, "system": system, "value": round(value, 3),
                          "unit": unit, "limit": limit, **parameters})
        row = self.rows[-1]
        detail = " ".join(f"{key}={value}" for key, value in parameters.items())
        bound = f"(limit {limit})" if limit is not None else ""
        print(f"  {measure:<34} {system:<8} {row['value']:>12,} {unit:<8} {bound:<14} {detail}",
              flush=True)


@contextlib.contextmanager
def fresh_musterd(**config):
    directory = pathlib.Path(tempfile.mkdtemp(prefix="muster-bench-"))
    musterd = Musterd(directory, config)
    try:
        yield musterd.start()
        musterd.finish()
    finally:
        musterd.destroy()
        shutil.rmtree(directory, ignore_errors=True)


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mb(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")


def measure_submit(args, report):
    """From before the request to the last of the replicas' programs, which prints its clock."""
    for network in ("private", "host"):
        with fresh_musterd(network=network) as musterd:
            program = shell("date +%s%N; exec sleep 1000")
            spec = job(program, {**program, "replicaCount": "3"})
            times = []
            for _ in range(args.repeat):
                begin = time.time_ns()
                submitted = musterd.api.create(spec)
                stamps = wait_until(
                    lambda submitted=submitted: len(s := started(submitted)) == 4 and s, 30,
                    "four replicas", interval_s=0.05)
                times.append((max(stamps) - begin) / 1e6)
                submitted.cancel()
                submitted.wait("CANCELLED")
            report.add("submit_to_all_programs_started", "muster", statistics.median(times), "ms",
                       300, replicas=4, network=network, jobs=args.repeat,
                       max=round(max(times), 1), min=round(min(times), 1))


def started(submitted):
    return [int(e["message"]) for e in submitted.entries() if e["taskName"] != "service"]


def create_over_rest(address, count, body):
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port))
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(count):
        connection.request("POST", JOBS, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read()
        assert response.status == 200, text


def create_over_grpc(address, count, body):
    import grpc
    from google.cloud.aiplatform_v1.types import CreateCustomJobRequest, CustomJob
    from google.protobuf import json_format

    message = CustomJob.pb(CustomJob())
    json_format.Parse(body, message)
    request = CreateCustomJobRequest.pb(
        CreateCustomJobRequest(parent=PARENT, custom_job=CustomJob.wrap(message)))
    call = grpc.insecure_channel(address).unary_unary(
        "/google.cloud.aiplatform.v1.JobService/CreateCustomJob",
        request_serializer=type(request).SerializeToString,
        response_deserializer=type(message).FromString)
    for _ in range(count):
        assert call(request, timeout=30).name


def client_process(work, address, count, body, ready, go):
    work(address, 5, body)  # connected, and everything is loaded
    ready.release()
    go.wait()
    work(address, count, body)


def measure_creates(args, report):
    """Accepted jobs per second; they stay in the queue, since one job holds the machine."""
    body = json.dumps({"displayName": "bench", "jobSpec": job(shell("true"), shell("true"))})
    for name, work in (("rest", create_over_rest), ("grpc", create_over_grpc)):
        with fresh_musterd(cpus=1, memory_gb=1, oversubscribe=1) as musterd:
            musterd.api.create(job(shell("exec sleep 1000"))).wait("RUNNING")
            fork = multiprocessing.get_context("spawn")
            ready, go = fork.Semaphore(0), fork.Event()
            count = args.creates // args.clients
            processes = [fork.Process(target=client_process, args=(work, musterd.address, count, body,
                                                                   ready, go))
                         for _ in range(args.clients)]
            for process in processes:
                process.start()
            for _ in processes:
                assert ready.acquire(timeout=60)
            cpu, begin = cpu_seconds(musterd.pid), time.monotonic()
            go.set()
            for process in processes:
                process.join(120)
                assert process.exitcode == 0
            elapsed = time.monotonic() - begin
            report.add(f"creates_per_second_{name}", "muster", count * args.clients / elapsed, "1/s",
                       None, clients=args.clients, jobs=count * args.clients,
                       musterd_cpu_ms_per_create=round(
                           1000 * (cpu_seconds(musterd.pid) - cpu) / (count * args.clients), 3))
            musterd.kill()
            # What waits in the queue is not worth cancelling one by one.
            shutil.rmtree(musterd.data)
            musterd.destroy()
            musterd.start()


def fill_store(database, count):
    """Copies the one job of the store `count` times, each a second older. Quicker than the API by
    far; the rows are those that the API made."""
    from google.cloud.aiplatform_v1.types import CustomJob

    connection = sqlite3.connect(database)
    row = connection.execute("SELECT collection, name, display_name, state, create_time, update_time,"
                             " body FROM resources").fetchone()
    uid, lifecycle, grant = connection.execute('SELECT uid, lifecycle, "grant" FROM jobs').fetchone()
    collection, name, display_name, state, create_time, update_time, body = row
    message = type(CustomJob.pb(CustomJob())).FromString(body)
    second = 1_000_000
    with connection:
        for number in range(1, count):
            message.name = name.replace(uid, str(int(uid) - number * second))
            message.create_time.seconds -= 1
            cursor = connection.execute(
                "INSERT INTO resources (collection, name, display_name, state, create_time,"
                " update_time, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (collection, message.name, f"{display_name}-{number}", state,
                 create_time - number * second, update_time, message.SerializeToString()))
            connection.execute(
                'INSERT INTO jobs (uid, resource, lifecycle, "grant") VALUES (?, ?, ?, ?)',
                (str(int(uid) - number * second), cursor.lastrowid, lifecycle, grant))
    connection.close()


def measure_list(args, report):
    """A page of 100 among many: the first, one from the middle, and filtered ones."""
    with fresh_musterd() as musterd:
        musterd.api.create(job(shell("true"), shell("true")), "bench").wait("SUCCEEDED")
        musterd.stop()
        fill_store(musterd.data / "muster.db", args.jobs)
        begin = time.monotonic()
        musterd.start()
        report.add("start_with_many_jobs", "muster", 1000 * (time.monotonic() - begin), "ms", None,
                   jobs=args.jobs)
        token = ""
        for _ in range(args.jobs // 2 // 1000):
            token = musterd.api.list(pageSize=1000, pageToken=token)["nextPageToken"]
        cases = {
            "first": {}, "middle": {"pageToken": token},
            "filtered": {"filter": "state=JOB_STATE_SUCCEEDED AND display_name:bench-7*"},
            "filtered_none": {"filter": "state=JOB_STATE_FAILED"},
            "read_mask": {"readMask": "name,displayName,state"},
        }
        connection = http.client.HTTPConnection(*musterd.address.rsplit(":", 1))
        for case, params in cases.items():
            path = requests_path({"pageSize": 100, **params})
            times = []
            for _ in range(30):
                begin = time.perf_counter()
                connection.request("GET", path)
                response = connection.getresponse()
                body = response.read()
                times.append(1000 * (time.perf_counter() - begin))
                assert response.status == 200, body
            found = len(json.loads(body).get("customJobs", []))
            assert found == (0 if case == "filtered_none" else 100), found
            report.add("list_page_of_100", "muster", statistics.median(times), "ms", None, page=case,
                       jobs=args.jobs, bytes=len(body))
        report.add("resident_memory_many_jobs", "muster", resident_mb(musterd.pid), "MiB", None,
                   jobs=args.jobs)


def requests_path(params):
    return f"{JOBS}?{urllib.parse.urlencode(params)}"


def measure_idle(args, report):
    with fresh_musterd() as musterd:
        report.add("idle_resident_memory", "muster", resident_mb(musterd.pid), "MiB")
        cpu = cpu_seconds(musterd.pid)
        time.sleep(5)
        report.add("idle_cpu", "muster", 100 * (cpu_seconds(musterd.pid) - cpu) / 5, "%")
        begin = time.monotonic()
        musterd.stop()
        musterd.start()
        report.add("restart", "muster", 1000 * (time.monotonic() - begin), "ms")
        musterd.api.create(job(shell("exec sleep 1000"))).wait("RUNNING")
        agents = [pid for pid, command in processes(musterd) if "muster-agent" in command]
        report.add("agent_resident_memory", "muster", resident_mb(agents[0]), "MiB")


def processes(musterd):
    return leaks.processes_with(musterd.data).items()


PRINTER = """
import sys, time
rate, width, seconds = float(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
out = sys.stdout.buffer
block = b"".join(b"%07d " % (n % 10_000_000) + b"x" * (width - 9) + b"\\n"
                 for n in range(max(1, int(rate / 200 / width))))
begin, written = time.monotonic(), 0
while written < rate * seconds:
    out.write(block); out.flush()
    written += len(block)
    ahead = written / rate - (time.monotonic() - begin)
    if ahead > 0: time.sleep(ahead)
print("wrote", written, "in", time.monotonic() - begin, flush=True)
"""


def measure_log(args, report):
    """One replica prints 50 MB/s, one reader follows. musterd's share of a core is the processor
    time for the whole log over the seconds that it was printed in; 100 % or more: it falls behind."""
    rate = 50_000_000
    for width in (1000, 200):
        with fresh_musterd() as musterd:
            submitted = musterd.api.create(job(python(PRINTER, str(rate), str(width),
                                                      str(args.log_seconds))))
            submitted.wait("RUNNING")
            agent = next(pid for pid, command in processes(musterd) if "muster-agent" in command)
            received = []
            reader = threading.Thread(target=drain, args=(musterd.address, submitted.name, received))
            server_cpu, agent_cpu, begin = cpu_seconds(musterd.pid), cpu_seconds(agent), time.monotonic()
            reader.start()
            time.sleep(args.log_seconds - 1)  # while it prints
            agent_share = (cpu_seconds(agent) - agent_cpu) / (time.monotonic() - begin)
            submitted.wait("SUCCEEDED", timeout_s=120)
            ended = time.monotonic()
            reader.join(300)
            assert not reader.is_alive()
            behind = time.monotonic() - ended
            server_cpu = cpu_seconds(musterd.pid) - server_cpu
            printed_s = printing_seconds(submitted)
            assert sum(received) > rate * args.log_seconds, "the reader has seen it all"
            parameters = {"line_bytes": width,
                          "printed_mb_per_s": round(rate * args.log_seconds / printed_s / 1e6, 1),
                          "reader_behind_s": round(behind, 2)}
            report.add("follow_log_musterd_cpu", "muster", 100 * server_cpu / printed_s, "%", None,
                       **parameters)
            report.add("follow_log_agent_cpu", "muster", 100 * agent_share, "%", None, **parameters)


def drain(address, name, received):
    """Reads the stream as fast as it comes, and does nothing with it."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"GET /muster/v1/{name}/logs:stream HTTP/1.1\r\nHost: {address}\r\n"
                           "Connection: close\r\n\r\n".encode())
        buffer = bytearray(1 << 20)
        while count := connection.recv_into(buffer):
            received.append(count)


def printing_seconds(submitted):
    """How long the program printed, by its own clock: the last line."""
    # Only the tail: the log is hundreds of megabytes.
    with requests.get(submitted.api.url(f"/muster/v1/{submitted.name}/logs:stream"),
                      params={"tail": 20}, timeout=30) as response:
        line = next(l for l in response.text.splitlines() if "wrote" in l and " in " in l)
    return float(line.partition(" in ")[2].split('"')[0])


def measure_cli(args, report):
    """What a user waits for: `create --wait` of a program that does nothing, beside Ray's."""
    with fresh_musterd() as musterd:
        spec = musterd.directory / "job.yaml"
        spec.write_text(json.dumps(job(shell("true"))))
        times = []
        for _ in range(args.repeat):
            begin = time.monotonic()
            subprocess.run([BIN / "muster", "--endpoint", musterd.address, "custom-jobs", "create",
                            "--display-name=true", f"--config={spec}", "--wait"], check=True,
                           capture_output=True, timeout=60)
            times.append(time.monotonic() - begin)
        report.add("submit_true_and_wait", "muster", statistics.median(times), "s", None,
                   jobs=args.repeat, max=round(max(times), 3))


FIRST_STEP = """
import os, time, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(8, 8))
model(torch.ones(4, 8)).sum().backward()
if dist.get_rank() == 0: print(time.time(), flush=True)
dist.barrier()
"""


def measure_first_step(args, report):
    """Submission to the first step of two PyTorch workers: mostly loading PyTorch."""
    with fresh_musterd() as musterd:
        program = python(FIRST_STEP, image="us-docker.pkg.dev/vertex-ai/training/pytorch")
        times = []
        for _ in range(args.ray_repeat):
            begin = time.time()
            submitted = musterd.api.create(job(program, program))
            submitted.wait("SUCCEEDED", timeout_s=60)
            times.append(float(submitted.messages("workerpool0-0")[-1]) - begin)
        report.add("first_step_of_two_workers", "muster", statistics.median(times), "s", None,
                   jobs=args.ray_repeat)


def measure_ray(args, report):
    if args.without_ray:
        return
    subprocess.run([ROOT / "tools/venv.sh", "ray"], check=True)
    command = ["unshare", "-n", "-p", "-f", "--mount-proc", "--kill-child",
               str(ROOT / "build/venv-ray/bin/python"), str(ROOT / "bench/ray_peer.py"),
               str(args.ray_repeat)]
    if os.geteuid() != 0:
        command[1:1] = ["--user", "--map-root-user"]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, timeout=600)
    if result.returncode != 0:
        sys.exit(f"Ray could not be measured:\n{result.stdout[-2000:]}\n{result.stderr[-4000:]}")
    figures = json.loads(result.stdout.splitlines()[-1])
    report.add("server_start", "ray", figures["start_s"], "s")
    report.add("submit_true_and_wait", "ray", statistics.median(figures["submit_s"]), "s", None,
               jobs=args.ray_repeat, max=round(max(figures["submit_s"]), 3))
    report.add("first_step_of_two_workers", "ray", statistics.median(figures["first_step_s"]), "s",
               None, jobs=args.ray_repeat)


MEASURES = {"submit": measure_submit, "creates": measure_creates, "list": measure_list,
            "idle": measure_idle, "log": measure_log, "cli": measure_cli,
            "first_step": measure_first_step, "ray": measure_ray}


def main():
    args = parse_args()
    chosen = args.only.split(",") if args.only else list(MEASURES)
    unknown = set(chosen) - set(MEASURES)
    if unknown:
        sys.exit(f"no such measure: {', '.join(unknown)}; there are {', '.join(MEASURES)}")
    report = Report()
    for name in chosen:
        MEASURES[name](args, report)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(report.rows, indent=1) + "\n")
    print(f"written to {args.output}")
    over = [row["measure"] for row in report.rows
            if row["limit"] is not None and row["value"] > row["limit"]]
    if over:
        sys.exit(f"over their limits: {', '.join(over)}")


if __name__ == "__main__":
    main()
