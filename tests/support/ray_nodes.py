"""A Ray cluster of several nodes on this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

from tests.support.paths import ROOT

# Ray's processes start slowly on a busy machine, and miss health checks there.
_PATIENT = {
    "RAY_gcs_server_request_timeout_seconds": "60",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "240",
    "RAY_raylet_start_wait_time_s": "240",
    "RAY_worker_register_timeout_seconds": "240",
    "RAY_health_check_initial_delay_ms": "5000",
    "RAY_health_check_timeout_ms": "30000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_failure_threshold": "5",
    "RAY_worker_niceness": "0",  # with its 15 the tasks starve beside the suite's other workers
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_ATTEMPTS = 6
# Without the autoscaler and the forwarding of logs to the driver.
_NODE = {
    "num_cpus": 1,
    "object_store_memory": 80 << 20,
    "include_dashboard": False,
    "no_monitor": True,
    "include_log_monitor": False,
}


class RayNodes:
    """`nodes` are those that run; `kill` ends one with its workers as a crash does."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.nodes: list[Any] = []

    def add(self) -> None:
        self.nodes.append(self.cluster.add_node(**_NODE, node_name=f"ray-node-{len(self.nodes)}"))

    def kill(self, number: int) -> None:
        self.cluster.remove_node(self.nodes.pop(number), allow_graceful=False)


@contextlib.contextmanager
def ray_nodes(count: int = 4) -> Iterator[RayNodes]:
    """A cluster of `count` nodes, to which this process connects."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    before = dict(os.environ)
    # A short path, because it has sockets.
    folder = tempfile.mkdtemp(prefix="rk-ray-", dir="/tmp")
    os.environ.update({**_PATIENT, "PYTHONPATH": path, "RAY_TMPDIR": folder})
    try:
        import ray

        found = _started(count)
        try:
            os.environ["RAY_ADDRESS"] = found.cluster.address
            yield found
        finally:
            ray.shutdown()
            found.cluster.shutdown()
    finally:
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(folder, ignore_errors=True)


def _started(count: int) -> RayNodes:
    """Ray waits for a new node for 30 s, whatever is set, which a busy machine may exceed."""
    from ray.cluster_utils import Cluster

    for left in reversed(range(_ATTEMPTS)):
        cluster = Cluster()
        try:
            cluster.add_node(**_NODE)
            found = RayNodes(cluster)
            for _ in range(count - 1):
                found.add()
            return found
        except Exception:
            cluster.shutdown()
            if not left:
                raise
    raise AssertionError
