"""Builds by a rootless engine, whose network is not this host's."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from reprokit.engine import Engine
from reprokit.helper import container
from reprokit.image.events import OutputLine
from tests.support.builds import TOOLS, root_file_system
from tests.support.privileges import as_root
from tests.support.rootless_engine import UID, RootlessEngine

pytestmark = [
    pytest.mark.engine,
    as_root(),
]

# bash's own means: what the gateway says to whom knows no password.
ASK = (
    "place=${http_proxy#*@}; exec 3<>/dev/tcp/${place%:*}/${place#*:}; "
    r'printf "GET http://example.org/ HTTP/1.0\r\n\r\n" >&3; cat <&3'
)


class OfTheEnginesUser(TemporaryDirectory):
    """As if that user ran this process: nobody else's engine sees what is in a private folder."""

    def __init__(self, **options: str) -> None:
        super().__init__(**options)
        os.chown(self.name, UID, UID)


@pytest.fixture
def rootless(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """A rootless engine that has the base image of `builds`."""
    folder = short_path / "engine"
    folder.mkdir()
    short_path.chmod(0o755)
    monkeypatch.setattr(container, "TemporaryDirectory", OfTheEnginesUser)
    started = RootlessEngine(folder)
    yield started.connect()
    started.stop()


def test_a_build_reaches_the_gateway(rootless: Engine, builds):
    assert rootless.info().has_option("name=rootless")
    base = builds.target.variant.base
    rootless.import_image(io.BytesIO(root_file_system((*TOOLS, "bash"))), *base.split(":"), ["ENV PATH=/bin"])
    builds(f"RUN bash -c '{ASK}'\n", engine=rootless)
    said = [event.line for event in builds.seen(OutputLine)]
    assert any("407" in line for line in said) and any("belongs to a running build" in line for line in said), said
