"""What a job or a musterd may leave behind: processes, sockets, mounts, cgroups, files."""

import contextlib
import os
import pathlib
import re


def processes_with(marker):
    """{pid: command line} of all processes with the text in their environment or arguments."""
    marker = os.fsencode(str(marker))
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            arguments = (entry / "cmdline").read_bytes()
            if marker in arguments or marker in (entry / "environ").read_bytes():
                found[int(entry.name)] = arguments.replace(b"\0", b" ").decode(errors="replace")
    return found


def job_uids(data_directory):
    jobs = pathlib.Path(data_directory) / "jobs"
    return [entry.name for entry in jobs.iterdir()] if jobs.is_dir() else []


def processes_of(data_directory, uids=()):
    """All that runs for the jobs of a data directory: by MUSTER_ATTEMPT=<job uid>/…, which every
    process of a replica inherits, and by the directory itself."""
    found = processes_with(data_directory)
    for uid in {*uids, *job_uids(data_directory)}:
        found.update(processes_with(f"MUSTER_ATTEMPT={uid}/"))
    return found


def mounts_below(directory):
    """Mounts of this process's own namespace."""
    text = pathlib.Path("/proc/self/mountinfo").read_text()
    points = [line.split()[4] for line in text.splitlines()]
    return [point for point in points if point.startswith(f"{directory}/")]


def cgroups_of(uids):
    """cgroup directories that carry a job's uid in their path."""
    found = []
    for root, directories, _ in os.walk("/sys/fs/cgroup"):
        for name in directories:
            if name in uids:
                found.append(os.path.join(root, name))
    return found


def muster_cgroups():
    return {os.path.join(root, name) for root, names, _ in os.walk("/sys/fs/cgroup")
            for name in names if name.startswith("muster-")}


def empty_muster_cgroups():
    """Cgroups that a musterd made and nothing is in any more."""
    found = set()
    for path in muster_cgroups():
        with contextlib.suppress(OSError):
            children = any(entry.is_dir() for entry in os.scandir(path))
            if not children and not pathlib.Path(path, "cgroup.procs").read_text():
                found.add(path)
    return found


def listening_ports(pid):
    """Ports on which a process listens, in its own network namespace."""
    inodes = set()
    with contextlib.suppress(OSError):
        for fd in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(fd.path))
                if match:
                    inodes.add(match[1])
    ports = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[9] in inodes:
                    ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


def port_leases():
    """Abstract sockets \\0muster-port-<n>: ports that musterds and agents of this network hold."""
    text = pathlib.Path("/proc/net/unix").read_text()
    return {int(number) for number in re.findall(r"@muster-port-(\d+)", text)}
