"""A Ray cluster of several nodes on this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

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
    "num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False, "no_monitor": True,
    "include_log_monitor": False,
}  # fmt: skip


class RayNodes:
    """`nodes` are those that run, beside the first; `kill` ends one with its workers as a crash does.

    Their $REPROKIT_HOME is `home`: a benchmark of theirs waits for none of the suite's other workers.
    """

    def __init__(self, home: str) -> None:
        self.home = home
        self.nodes: list[Any] = []
        self.cluster = self._patiently(_cluster)

    def add(self) -> None:
        name = f"ray-node-{len(self.nodes)}"
        self.nodes.append(self._patiently(lambda: self.cluster.add_node(**_NODE, node_name=name)))

    def kill(self, number: int) -> None:
        self.cluster.remove_node(self.nodes.pop(number), allow_graceful=False)

    def _patiently(self, start: Callable[[], Any]) -> Any:
        """Call `start`, again where it fails: Ray gives a node 30 s to start, and a busy machine may need longer."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("REPROKIT_HOME", self.home)
            for _ in range(_ATTEMPTS - 1):
                with contextlib.suppress(Exception):
                    return start()
            return start()


def _cluster() -> Any:
    """A cluster of one node."""
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        cluster.add_node(**_NODE)
    except BaseException:
        cluster.shutdown()
        raise
    return cluster


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

        found = RayNodes(f"{folder}/home")
        try:
            for _ in range(count - 1):
                found.add()
            os.environ["RAY_ADDRESS"] = found.cluster.address
            yield found
        finally:
            ray.shutdown()
            found.cluster.shutdown()
    finally:
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(folder, ignore_errors=True)
