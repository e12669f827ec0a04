"""The container engine. The only package that imports docker; everything else goes through `Engine`."""

from reprokit.engine.client import LABEL, OWN_IMAGES, labels_of
from reprokit.engine.containers import Containers
from reprokit.engine.failures import port_taken
from reprokit.engine.images import Images

__all__ = ["LABEL", "OWN_IMAGES", "Engine", "labels_of", "port_taken"]


class Engine(Images, Containers):
    """A connection to a Docker-compatible engine: `Engine.connect()` for this machine's, `behind()` for another's.

    Plain data goes in and out (the Engine API's own JSON), so that callers can be tested with data. Optional fields of
    the API's answers differ between engine versions and podman: read them with `.get`.
    """
