"""Pages of links as a recipe's index: projects publish builds for other CUDA versions there."""

from __future__ import annotations

import hashlib
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from reprokit.supply.kinds.wheels import uv
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.kinds.wheels.platform import Platform, WheelRequest

pytestmark = pytest.mark.slow


@pytest.fixture
def page(tmp_path: Path):
    """The address of a page with a link to one wheel."""
    with zipfile.ZipFile(tmp_path / "dgl_cu113-0.9.1-cp38-cp38-manylinux1_x86_64.whl", "w") as wheel:
        wheel.writestr("dgl_cu113-0.9.1.dist-info/METADATA", "Metadata-Version: 2.1\nName: dgl-cu113\nVersion: 0.9.1\n")
        wheel.writestr("dgl_cu113-0.9.1.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: cp38-cp38-manylinux1_x86_64\n")
        wheel.writestr("dgl_cu113-0.9.1.dist-info/RECORD", "")
    name = next(tmp_path.glob("*.whl")).name
    (tmp_path / "repo.html").write_text(f'<a href="{name}">{name}</a><br>\n')
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/repo.html"
        server.shutdown()


def test_a_page_of_links_is_read_as_one(page, tmp_path):
    found = uv.resolve(WheelRequest(["dgl-cu113==0.9.1"], Platform("3.8", "2.31"), indexes=[page]), PipSettings())
    assert [(p.name, p.version) for p in found] == [("dgl-cu113", "0.9.1")]
    (file,) = found[0].files
    assert file.url == page.replace("repo.html", file.file)
    assert file.sha256 in ("", hashlib.sha256(next(tmp_path.glob("*.whl")).read_bytes()).hexdigest())


def test_what_the_page_does_not_link_is_not_found(page):
    with pytest.raises(uv.Unsatisfied, match="dgl-cu113"):
        uv.resolve(WheelRequest(["dgl-cu113==1.0.0"], Platform("3.8", "2.31"), indexes=[page]), PipSettings())
