"""The container engine. The only package that imports docker; everything else goes through `Engine`."""

from reprokit.engine.client import LABEL, OWN_IMAGES
from reprokit.engine.containers import Containers
from reprokit.engine.failures import port_taken
from reprokit.engine.images import Images
from reprokit.engine.info import ContainerInfo, EngineInfo, EngineVersion, ImageInfo, TransferEvent, full_id

__all__ = ["LABEL", "OWN_IMAGES", "ContainerInfo", "Engine", "EngineInfo", "EngineVersion", "ImageInfo",
           "TransferEvent", "full_id", "port_taken"]  # fmt: skip


class Engine(Images, Containers):
    """A connection to a Docker-compatible engine: `Engine.connect()` for this machine's, `behind()` for another's.

    Answers become frozen dataclasses (`engine.info`), so that no caller reads the Engine API's JSON.
    """
