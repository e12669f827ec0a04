"""A node whose answer is nonsense: one error of this node, and the command goes on with the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace, TracebackType
from typing import Any

import pytest

from reprokit.config.nodes import Node
from reprokit.errors import EngineError, SourceError
from reprokit.nodes import delivery, inventory, probe, remote_staging, survey
from reprokit.nodes.remote import Remote

HUGE = "9" * 5000
DIGEST = f"sha256:{'1' * 64}"
FACTS = "reprokit:uid 1\nreprokit:gid 1\nreprokit:cache /c\n"
IMAGE = {"id": DIGEST, "tags": ["x:1"], "layers": [DIGEST], "size": 1, "labels": {}}


class AnsweringNode:
    """In place of a connection: each script has the same answer."""

    node = Node("lab", "lab")

    def __init__(self, stdout: str) -> None:
        self._stdout = stdout

    def __enter__(self) -> AnsweringNode:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None: ...

    def run(self, *script: object, limit_s: float | None = 0) -> SimpleNamespace:
        return SimpleNamespace(returncode=0, stdout=self._stdout, stderr="")


def listing(*others: Any, free: str = "1") -> str:
    lines = ['{"Version": "20"}', "[]", '"overlay2"', free, "true", *map(json.dumps, others)]
    return "\n".join(["reprokit: inventory", *lines, ""])


def test_a_label_may_have_any_character():
    labels = {"maintainer": "x\u0085y\u2028\x1c"}
    answer = listing().rstrip() + "\n" + json.dumps({**IMAGE, "labels": labels}, ensure_ascii=False) + "\n"
    (image,) = inventory.parse(answer, "lab").images
    assert image.labels == labels


@pytest.mark.parametrize(
    "answer",
    [
        lambda: listing({**IMAGE, "layers": [DIGEST] * 501}),
        lambda: listing(*[IMAGE | {"labels": {str(number): "" for number in range(400_000)}}]),
        lambda: listing(free="9" * 400),
        lambda: listing(free=HUGE),
        lambda: listing(free="1e999"),
    ],
    ids=["layers", "values", "overflow", "digits", "float"],
)
@pytest.mark.slow
def test_an_impossible_engine_is_one_line_of_the_survey(answer: Callable[[], str]):
    found = survey.ask(AnsweringNode(FACTS + answer()), 1)
    assert found.seen and found.inventory is None and found.error


@pytest.mark.parametrize(
    "uid", [HUGE, "-1", "1_0", "\u0661", ""], ids=["digits", "sign", "underscore", "arabic", "empty"]
)
def test_a_user_that_is_no_number_is_one_line_of_the_survey(uid: str):
    found = survey.ask(AnsweringNode(FACTS.replace("uid 1", f"uid {uid}")), 1)
    assert found.seen is None and "is not a whole number" in found.error and len(found.error) < 200


def test_the_reserve_of_a_full_disk_is_no_nonsense():
    assert inventory.parse(listing(free="-52"), "lab").free == 0


def test_a_blob_of_an_impossible_size_is_not_known():
    blob = {"mediaType": "x", "digest": DIGEST, "size": 10**400}
    manifest = {"manifest": DIGEST, "content": {"schemaVersion": 2, "config": {**blob, "size": 1}, "layers": [blob]}}
    text = json.dumps(manifest, separators=(",", ":"))
    (image,) = inventory.parse(listing(IMAGE) + text, "lab").images
    assert image.manifest is None
    (image,) = inventory.parse(listing(IMAGE) + text.replace("0" * 400, ""), "lab").images
    assert image.manifest is not None


@pytest.mark.parametrize("lines", [HUGE, "1\n-5 x.part", f"1\n{HUGE} x.part", "x", "1\nx"], ids=range(5))
def test_a_staging_directory_of_nonsense_is_an_error_of_the_node(lines: str):
    with pytest.raises(SourceError, match="the node's answer is not valid"):
        remote_staging.prepare(AnsweringNode(f"reprokit: incoming\n/c\n{lines}\n"), "me")


@pytest.mark.parametrize("free", [HUGE, "\u0661", "-", ""], ids=["digits", "arabic", "sign", "empty"])
def test_free_space_that_is_no_number_is_unknown(free: str):
    assert Remote(AnsweringNode(f"Filesystem\n/dev/sda 1 1 {free} 1% /\n")).disk_free_bytes("/") is None


def test_any_failure_of_one_node_is_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path):
    def refused(node: Node) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(delivery, "SshConnection", refused)
    needed: list[object] = []
    packing = SimpleNamespace(need=needed.append)
    sent = delivery.Delivery(AnsweringNode.node, packing, tmp_path, "me", False, lambda: None)
    sent.run()
    assert isinstance(sent.error, SourceError) and "Invalid argument" in sent.error.message
    assert needed == [None]  # the packing does not wait for this node


def test_numbers_of_a_node_have_few_digits():
    assert probe.number("0" * 18) == 0 and probe.free_bytes("3") == 3072
    with pytest.raises(ValueError):
        probe.number("1" * 19)
    with pytest.raises(EngineError):
        _ = Remote(AnsweringNode(FACTS.replace("uid 1", f"uid {HUGE}"))).seen
