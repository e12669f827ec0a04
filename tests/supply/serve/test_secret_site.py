"""Secrets over HTTP: only to the step that may have them, in any other case 403."""

from __future__ import annotations

import pytest

from reprokit.errors import EngineError
from reprokit.supply.gateway import Gateway
from reprokit.supply.serve.secret_site import SecretSite
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from tests.support.asking import ask, connect

VALUE = b"line one\n$(reboot) ' \" \\ `x`\0\xff\n"
ADDRESS = "http://secrets.reprokit.invalid/"


@pytest.fixture
def step() -> set[str]:
    """What the running step may read."""
    return {"TOKEN"}


@pytest.fixture
def gateway(tmp_path, step: set[str]):
    site = SecretSite({"TOKEN": VALUE, "OTHER": b"other-secret", "LARGE": b"x" * (1 << 20)}, lambda: step)
    with Gateway(Store(tmp_path / "store"), ServedSet(), secret_site=site) as running:
        yield running


def test_a_step_gets_what_its_block_names(gateway: Gateway, step: set[str]):
    answer, body = ask(gateway, f"{ADDRESS}TOKEN")
    assert (answer.status, body) == (200, VALUE)
    step.add("LARGE")
    assert len(ask(gateway, f"{ADDRESS}LARGE")[1]) == 1 << 20
    assert not gateway.missing and not gateway.hosts


@pytest.mark.parametrize(
    "path", ["OTHER", "NONE", "", "/TOKEN", "x/../TOKEN", "../TOKEN", "%54OKEN", "TOKEN/", "token", "TOKEN%00", "."]
)
@pytest.mark.slow
def test_any_other_name_is_refused_and_noted(gateway: Gateway, path: str):
    answer, body = ask(gateway, ADDRESS + path)
    assert answer.status == 403 and b"line one" not in body and b"other-secret" not in body
    assert dict(gateway.missing) == {f"secret {path}": 1}


def test_no_step_and_no_password_is_no_secret(gateway: Gateway, step: set[str]):
    connection = connect(gateway)
    connection.request("GET", f"{ADDRESS}TOKEN")
    assert connection.getresponse().status == 407
    step.clear()
    assert ask(gateway, f"{ADDRESS}TOKEN")[0].status == 403
    head, body = ask(gateway, f"{ADDRESS}TOKEN", "HEAD")
    assert (head.status, body) == (403, b"")


def test_an_engine_that_does_not_answer_is_a_refusal(tmp_path):
    def fails():
        raise EngineError("the engine is gone")

    with Gateway(Store(tmp_path), ServedSet(), secret_site=SecretSite({"TOKEN": VALUE}, fails)) as gateway:
        answer, body = ask(gateway, f"{ADDRESS}TOKEN")
    assert answer.status == 503 and b"the engine is gone" in body


def test_counted_names_and_output_have_no_value(gateway: Gateway):
    gateway.note(gateway.refused, "http://other-secret.test/")
    assert dict(gateway.refused) == {"http://***.test/": 1}
    assert gateway.hide(f"{gateway.url} other-secret line one").endswith(" *** ***")
