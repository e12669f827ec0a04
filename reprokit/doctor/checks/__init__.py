"""All checks, in the order of their reports. A check is a module here with a function `find`."""

from reprokit.doctor.checks import (
    certificates,
    clock,
    command,
    cpu,
    disk,
    dns,
    engine,
    gpu,
    gpu_container,
    gpu_driver,
    gpu_health,
    gpu_toolkit,
    isolation,
    kernel,
    locale,
    memory,
    mirrors,
    nesting,
    proxies,
    recipe,
    registry,
    ssh_agent,
    storage,
    ulimits,
)
from reprokit.doctor.examine import Check

CHECKS: tuple[Check, ...] = (
    *(recipe, engine, storage, isolation, registry),
    *(gpu, gpu_driver, gpu_health, gpu_toolkit, gpu_container),
    *(memory, disk, cpu, kernel, nesting, clock, locale, ulimits, command),
    *(dns, proxies, certificates, mirrors, ssh_agent),
)
