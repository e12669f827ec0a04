"""Interface histories: made from wheels on a server that answers ranges, and looked up."""

from __future__ import annotations

import io
import json
import zipfile

import pytest

from reprokit.compat import interfaces
from reprokit.compat.interfaces import history, of_message
from reprokit.compat.version import key
from reprokit.config import Configuration
from reprokit.supply.fetch.http import Client
from reprokit.supply.kinds.wheels.listing import Listing
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store
from tests.performance import interfaces as maker
from tests.support.fetching import HOSTS
from tests.support.json_index import JSON
from tests.support.upstream import Upstream

OLD = {
    "dgl/__init__.py": "from .graph import *\nfrom . import _six\nimport warnings\nfrom .old import gone as left\n",
    "dgl/graph.py": "__all__ = ['Graph', 'load']\nclass Base:\n    def shown(self): ...\nclass Graph(Base):\n"
    "    def adj(self, scipy_fmt=None): ...\n    def node(self): ...\n    def shown(self): ...\n"
    "def load(path, mode=1, **rest): ...\ndef hidden(): ...\n",
    "dgl/old.py": "if True:\n    def gone(): ...\n",
    "dgl/_six.py": "import collections.abc as container_abcs\n",
    "dgl/broken.py": "def (:\n",
    "dgl/deep.py": "x = " + "-" * 100_000 + "1\n",
    "dgl/tests/test_a.py": "def test(): ...\n",
    "other/__init__.py": "def foreign(): ...\n",
    "dgl/native.so": "\0" * 300_000,
}
NEW = {
    "dgl/__init__.py": "from .graph import *\nimport typing\n_old_names = [('load_old', '')]\n"
    "_deprecations = {'kept': ('use x', 1), 'lost': ('gone', None)}\n"
    "__deprecated_attrs__ = {n: 1 for n, why in _old_names}\nfrom ._C import *\n",
    "dgl/graph.py": "__all__ = ['Graph', 'load']\nclass Base:\n    def shown(self): ...\n    def fresh(self): ...\n"
    "class Graph(Base):\n    def adj(self): ...\ndef load(path, mode=1, mmap=None): ...\n",
    "dgl/_C/__init__.pyi": "from typing import Any\ndef native(): ...\n",
    "dgl/nn.py": "class GraphConv:\n    def forward(self): ...\n",
}


def wheel(files: dict[str, str]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in files.items():
            archive.writestr(path, text, zipfile.ZIP_STORED if path.endswith(".so") else None)
    return made.getvalue()


@pytest.fixture
def made(upstream: Upstream, store: Store, tmp_path, monkeypatch: pytest.MonkeyPatch) -> Upstream:
    """Histories of two releases of dgl."""
    upstream.ranges = True
    files = []
    for version, content in (("0.9.0", {}), ("0.9.1", OLD), ("1.0.2", NEW)):
        name = f"dgl-{version}-cp310-cp310-manylinux1_x86_64.whl"
        upstream.answers[f"/{name}"] = (200, {}, wheel(content))
        files.append({"filename": name, "url": f"/{name}", "hashes": {}})
    upstream.answers["/simple/dgl/"] = (200, {"Content-Type": JSON}, json.dumps({"files": files}).encode())
    settings = PipSettings(index=f"http://127.0.0.1:{upstream.port}/simple/")
    mirrors = Mirrors(store, Configuration(hosts=HOSTS), pip=settings)
    with Client(mirrors.settings) as client:
        maker.write(tmp_path, "dgl", maker.read("dgl", client, Listing(mirrors)))
    monkeypatch.setattr(interfaces, "FOLDER", tmp_path)
    interfaces._table.cache_clear()
    yield upstream
    interfaces._table.cache_clear()


def test_histories_are_read_from_ranges_of_wheels(made: Upstream):
    spans = {
        "left": "dgl up to 0.9",
        "_six": "dgl up to 0.9",
        "warnings": "dgl up to 0.9",
        "native": "dgl from 1.0 on",
        "kept": "dgl from 1.0 on",
        "load_old": "dgl from 1.0 on",
        "dgl.nn": "dgl from 1.0 on",
        "GraphConv": "dgl from 1.0 on",
        "Graph.node": "dgl up to 0.9",
        "Graph.adj(scipy_fmt)": "dgl up to 0.9",
        "load(mmap=)": "dgl from 1.0 on",
    }
    found = {name: str(history("dgl", name)) for name in spans}
    assert found == {name: f"{name}: in {span}{', not since' * ('up' in span)}" for name, span in spans.items()}
    # What all releases have or none has; what belongs to others; what came or went with its class or module.
    for name in ("Graph", "load", "Graph.shown", "load(mode)", "lost", "hidden", "dgl.tests", "foreign", "Any", "typo"):
        assert history("dgl", name) is None, name
    assert history("dgl", "GraphConv.forward") is None and history("dgl", "dgl._six.container_abcs") is None
    sizes = [len(made.answers[path][2]) for _, path, _, _ in made.requests if path.endswith(".whl")]
    assert len(sizes) <= 7 and not any(
        headers.get("Range") is None for _, path, headers, _ in made.requests if "whl" in path
    )


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("module 'numpy' has no attribute 'float'", "numpy.float: in numpy up to 1.23, not since; 1.23"),
        ("module 'numpy' has no attribute 'trapezoid'", "numpy.trapezoid: in numpy from 2.0 on; 2.0"),
        ("module 'torch' has no attribute 'rfft'", "torch.rfft: in torch up to 1.7, not since; 1.7"),
        ("No module named 'torch._six'", "torch._six: in torch up to 1.13, not since; 1.13"),
        ("cannot import name 'AdamW' from 'transformers'", "transformers.AdamW: in transformers"),
        (
            "TrainingArguments.__init__() got an unexpected keyword argument 'evaluation_strategy'",
            "TrainingArguments.__init__(evaluation_strategy): in transformers from 3.2 up to 4.50, not since; 4.50",
        ),
        ("module 'jax' has no attribute 'linear_util'", "jax.linear_util: in jax"),
        (
            'identifier "cudaThreadSynchronize" is undefined',
            "cudaThreadSynchronize: in cuda up to 12.9, not since; 12.9",
        ),
        ("error: 'textureReference' does not name a type", "textureReference: in cuda up to 11.8, not since; 11.8"),
        ("'RedditDataset' object has no attribute 'num_labels'", "RedditDataset.num_labels: in dgl"),
        ("load() got an unexpected keyword argument 'weights_only'", ""),  # of numpy, torch or the user
        ("module 'numpy' has no attribute 'no_such_name'", ""),
        ("module 'evil' has no attribute 'float'", ""),
        ("module '../../numpy' has no attribute 'float'", ""),
    ],
)
def test_what_a_message_misses_has_a_range(message: str, answer: str):
    span = of_message(f"AttributeError: {message}")
    assert (f"{span}; {span.nearest()}" if span else "").startswith(answer) and bool(span) == bool(answer)


def test_a_keyword_needs_the_name_of_its_package():
    message = "TypeError: load() got an unexpected keyword argument 'weights_only'"
    assert str(of_message(message, ["torch", "os"])) == "load(weights_only): in torch from 1.13 on"


@pytest.mark.parametrize(("pin", "nearest"), [("1.9", "1.11"), ("", "1.26"), ("1.25.2", "1.26"), ("2.0", "1.26")])
def test_the_nearest_release_is_on_the_side_of_the_pin(pin: str, nearest: str):
    span = interfaces.Range("numpy", "x", "1.11", "1.26")
    assert span.nearest(pin) == nearest
    assert [span.has(version) for version in ("1.10.4", "1.11.0", "1.26.4", "2.0.0")] == [False, True, True, False]


@pytest.mark.parametrize("package", interfaces.PACKAGES)
def test_committed_histories_are_in_order(package: str):
    oldest, newest, rows = interfaces._table(package)
    for first, last, names in (row for entries in rows.values() for row in entries):
        assert key(oldest) <= key(first) <= key(last) <= key(newest) and (first, last) != (oldest, newest)
        assert all(name.isidentifier() for name in names.split())


def test_committed_histories_are_small():
    assert sum(path.stat().st_size for path in interfaces.FOLDER.iterdir()) < 1_500_000
