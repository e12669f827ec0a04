"""All checks by name, in the order of their reports."""

from reprokit.doctor.checks import engine, gpu, machine, network
from reprokit.doctor.examine import Check

CHECKS: dict[str, Check] = {
    "recipe": machine.recipe,
    "engine": engine.reachable,
    "storage": engine.storage,
    "isolation": engine.isolation,
    "registry": engine.registry,
    "gpu": gpu.lost,
    "gpu_driver": gpu.driver,
    "gpu_health": gpu.health,
    "gpu_toolkit": gpu.toolkit,
    "gpu_container": gpu.container,
    "memory": machine.memory,
    "disk": machine.disk,
    "cpu": machine.cpu,
    "kernel": machine.kernel,
    "nesting": machine.nesting,
    "clock": machine.clock,
    "locale": machine.locale,
    "ulimits": machine.ulimits,
    "command": machine.command,
    "dns": network.dns,
    "proxies": network.proxies,
    "certificates": network.certificates,
    "mirrors": network.mirrors,
    "ssh_agent": network.ssh_agent,
}
