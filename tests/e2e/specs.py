"""CustomJobSpecs for tests."""

import shlex

PYTHON_IMAGE = "test.local/python:1"


def pool(command, replicas=1, machine="small", image=PYTHON_IMAGE, **container):
    return {
        "replicaCount": str(replicas),
        "machineSpec": {"machineType": machine},
        "containerSpec": {"imageUri": image, "command": command, **container},
    }


def shell(script, **keywords):
    return pool(["sh", "-c", script], **keywords)


def python(source, *args, **keywords):
    return pool(["python3", "-u", "-c", source, *args], **keywords)


def job(*pools, **fields):
    return {"workerPoolSpecs": list(pools), **fields}


# A program that runs until it is told to end, and says when it is there.
WAIT = "echo ready; exec sleep 1000"

# For a primary that is to end when the test says so.
WAIT_FOR_FILE = """
import os, sys, time
print("ready", flush=True)
deadline = time.monotonic() + 60
while not os.path.exists(sys.argv[1]):
    if time.monotonic() > deadline: sys.exit("nobody came")
    time.sleep(0.02)
"""


def quoted(*words):
    return " ".join(shlex.quote(str(word)) for word in words)
