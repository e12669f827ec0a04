"""A rootless Docker Engine for real, of a user who is in no file of the machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.support.engines import ServedEngine
from tests.support.privileges import OTHER_USER, need_root

UID = 4801
# Its own mount namespace, for the user and its subordinate ids. Of the links that rootlesskit puts into its copy of
# /run those to the machine's own engine go away. The network has a loopback and nothing else.
_START = f"""
set -eu
cd "$1"
for file in passwd subuid subgid; do cp /etc/$file .; done
echo "rootless:x:{UID}:{UID}::$1:/bin/sh" >> passwd
echo "rootless:100000:65536" | tee -a subuid >> subgid
for file in passwd subuid subgid; do mount --bind $file /etc/$file; done
exec setpriv --reuid {UID} --regid {UID} --clear-groups env HOME="$1" XDG_RUNTIME_DIR="$1" \
  rootlesskit --net=host --copy-up=/etc --copy-up=/run --state-dir="$1/rootlesskit" \
  unshare --net sh -c 'ip link set lo up; rm -f /run/docker /run/containerd /run/xtables.lock; exec dockerd "$@"' \
  dockerd --rootless --host="unix://$1/s" --data-root="$1/data" --exec-root="$1/exec" --pidfile="$1/pid" \
  --storage-driver=overlay2 --bridge=none --iptables=false
"""


class RootlessEngine(ServedEngine):
    """Started in `folder`, which becomes the user's, with its socket `s`."""

    def __init__(self, folder: Path) -> None:
        need_root(OTHER_USER)
        self.folder, self.socket = folder, folder / "s"
        os.chown(folder, UID, UID)
        folder.chmod(0o755)
        command = ["unshare", "--mount", "sh", "-c", _START, "start", str(folder)]
        super().__init__(f"unix://{self.socket}", command, folder / "log")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(120)
        shutil.rmtree(self.folder, ignore_errors=True)
