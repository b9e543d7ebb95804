"""The peer of control_plane.py: Ray's job submission and Ray Train's worker start.

Run by control_plane.py inside namespaces of its own (Ray binds beyond loopback), with the Python of
build/venv-ray. Prints one JSON object: {"start_s", "submit_s": […], "first_step_s": […]}.
"""

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1
RAY = str(Path(sys.executable).parent / "ray")

TRAIN = """
import sys, time
begin = time.time()
import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

def train(config):
    import torch, ray.train
    from ray.train.torch import prepare_model
    model = prepare_model(torch.nn.Linear(8, 8))
    model(torch.ones(4, 8)).sum().backward()
    if ray.train.get_context().get_world_rank() == 0:
        with open(config["file"], "w") as out: out.write(str(time.time()))

ray.init(address="auto", logging_level="ERROR")
TorchTrainer(train, train_loop_config={"file": sys.argv[1]},
             scaling_config=ScalingConfig(num_workers=2, use_gpu=False),
             run_config=RunConfig(storage_path=sys.argv[2])).fit()
print("first step", float(open(sys.argv[1]).read()) - float(sys.argv[3]))
"""


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(control, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


def timed(command, **keywords):
    begin = time.monotonic()
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, timeout=300, **keywords)
    if result.returncode != 0:
        sys.exit(f"{command} failed:\n{result.stdout[-4000:]}")
    return time.monotonic() - begin, result.stdout


def main():
    repeat = int(sys.argv[1])
    loopback_up()
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0",
                   "RAY_TRAIN_V2_ENABLED": "1", "RAY_METRICS_EXPORT": "0"}
    with tempfile.TemporaryDirectory(prefix="ray-") as directory:
        start_s, _ = timed([RAY, "start", "--head", "--node-ip-address=127.0.0.1",
                            "--dashboard-host=127.0.0.1", f"--temp-dir={directory}",
                            "--disable-usage-stats"], env=environment)
        environment["RAY_ADDRESS"] = "http://127.0.0.1:8265"
        submit = [timed([RAY, "job", "submit", "--", "true"], env=environment)[0]
                  for _ in range(repeat)]
        environment["RAY_ADDRESS"] = "127.0.0.1:6379"
        first = []
        for number in range(repeat):
            mark = f"{directory}/first-{number}"
            _, said = timed([sys.executable, "-c", TRAIN, mark, f"{directory}/results",
                             str(time.time())], env=environment)
            first.append(float(said.rpartition("first step ")[2].split()[0]))
        # The namespaces' end is Ray's end; `ray stop` looks at every process of the machine.
        print(json.dumps({"start_s": start_s, "submit_s": submit, "first_step_s": first}))


if __name__ == "__main__":
    main()
