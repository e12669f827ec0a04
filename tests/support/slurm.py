"""A Slurm cluster of one node: Debian's own programs, unpacked into a folder and run in namespaces of their own."""

from __future__ import annotations

import subprocess
from pathlib import Path

PACKAGES = (*("slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins"), *("libhwloc15", "liblua5.1-0"))
# In place of Apptainer, of which Debian 12 and 13 have no package. It shows its arguments, and runs the command in the
# workspace.
APPTAINER = """\
#!/bin/bash
echo "arguments: $*" >&2
[ "$1 $2 $3" = "exec --containall --bind" ] || exit 9
cd "${4%%:*}" && shift 7 && exec "$@"
"""
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_TIMEOUT_S = 400
# Without munge, as nobody else is in this network; its one address is what getaddrinfo asks for (AI_ADDRCONFIG). The
# node counts as what is written here, however small this machine or its disk is, and its job is started at once.
_CONFIGURATION = """\
ClusterName=test
SlurmctldHost=localhost
SlurmUser=root
AuthType=auth/none
CredType=cred/none
MpiDefault=none
PluginDir={root}/{libraries}/slurm-wlm
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/slurmd.pid
NodeName=localhost NodeAddr=127.0.0.1 CPUs=1 RealMemory=8000 TmpDisk=100000
SlurmdParameters=config_overrides
SchedulerParameters=sched_min_interval=0
PartitionName=main Nodes=localhost Default=YES MaxTime=10
"""
_START = """
root=$1 folder=$2; shift 2
ip link set lo up; ip addr add 10.99.0.1/32 dev lo
# Names are looked up in no network, which here is a wait for an answer that cannot come.
hostname localhost
printf '127.0.0.1 localhost\n' >"$folder/hosts"; mount --bind "$folder/hosts" /etc/hosts
: >"$folder/resolv.conf"; mount --bind "$folder/resolv.conf" /etc/resolv.conf
export LD_LIBRARY_PATH=$root/{libraries}:$root/{libraries}/slurm-wlm SLURM_CONF=$folder/slurm.conf
export PATH=$root/usr/bin:$PATH
"$root/usr/sbin/slurmctld-wlm" -D >"$folder/ctld.log" 2>&1 &
"$root/usr/sbin/slurmd-wlm" -D -N localhost -d "$root/usr/sbin/slurmstepd-wlm" >"$folder/slurmd.log" 2>&1 &
until [ "$(sinfo -h -o %t 2>/dev/null)" = idle ]; do sleep 1; done
exec "$@"
"""


def unpacked(folder: Path) -> Path:
    """Debian's packages of Slurm, unpacked and not installed."""
    debs = folder / "debs"
    debs.mkdir(parents=True)
    subprocess.run(["apt-get", "download", *PACKAGES], cwd=debs, check=True, capture_output=True)
    for deb in debs.iterdir():
        subprocess.run(["dpkg-deb", "-x", str(deb), str(folder / "root")], check=True, capture_output=True)
    return folder / "root"


def run_job(root: Path, folder: Path, script: Path, *arguments: str, **environment: str) -> int:
    """Start a cluster, run the script as a job in `folder`, and end the cluster; the job's exit code."""
    return run_command(root, folder, "sbatch", "--wait", str(script), *arguments, **environment)


def run_command(root: Path, folder: Path, *words: str, **environment: str) -> int:
    """Start a cluster, run a command beside it in `folder`, and end the cluster; the command's exit code."""
    for name in ("state", "spool"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "slurm.conf").write_text(_CONFIGURATION.format(root=root, libraries=_LIBRARIES, folder=folder))
    command = ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "env"]
    command += [*(f"{name}={value}" for name, value in environment.items())]
    command += ["sh", "-c", _START.replace("{libraries}", _LIBRARIES), "sh", str(root), str(folder), *words]
    with (folder / "sbatch.log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            return process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            logs = "".join(f"\n{file.name}:\n{file.read_text()[-3000:]}" for file in sorted(folder.glob("*.log")))
            raise AssertionError(f"the cluster ran no job in {_TIMEOUT_S} s:{logs}") from None
        finally:
            process.kill()  # unshare forwards no other signal, and the cluster ends with it
            process.wait()
