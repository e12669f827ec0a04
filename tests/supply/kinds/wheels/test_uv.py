"""Errors made from uv's output. The lines are uv's own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from reprokit.compat.model import Stack
from reprokit.compat.stack import resolved_wheels
from reprokit.errors import EngineError, SourceError
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.kinds.wheels.platform import Platform
from reprokit.supply.kinds.wheels.resolve import within_facts
from reprokit.supply.kinds.wheels.uv import (
    Unreachable,
    Unsatisfied,
    environment,
    explain,
    index_options,
    python_platform,
    with_credentials,
)

HERE = Platform("3.8", "2.31")
NONE = "error: No solution found when resolving dependencies\n  cause: Because "
END = "we can conclude that your requirements are unsatisfiable.\n"


OTHER_PYTHONS = "You require CPython 3.11 (`cp311`), but we only found wheels for `torch` (v1.8.0) with `cp38`, `cp39`"
DISABLED = "hint: Wheels are required for `gputil` because building from source is disabled for all packages"


@pytest.mark.parametrize(
    ("cause", "more", "message", "where", "hint"),
    [
        ("there is no version of six==1.99 and you require six==1.99", "", "no index has six==1.99", "six==1.99", ""),
        ("sixx was not found in the package registry and you require sixx", "", "no index has a wheel of", "sixx", ""),
        ("g==1 has no usable wheels and you require g==1", DISABLED, "no wheel of g==1", "g==1", "`sdists`"),
        ("all versions of annoy have no usable wheels and", "", "no wheel of annoy for Python", "annoy", "`sdists`"),
        (
            "torch==1.8.0 has no wheels with a matching Python ABI tag (e.g., `cp311`) and you require torch==1.8.0",
            f"hint: {OTHER_PYTHONS}\n",
            "no wheel of torch==1.8.0",
            "torch==1.8.0",
            OTHER_PYTHONS,
        ),
        (
            "one==1.0 depends on low==1 and you require low==2, we can conclude that\n"
            "         your requirements and one==1.0 are incompatible.\n         And because you require one",
            "",
            "the wheels do not fit together: Because one==1.0 depends on low==1 and you require low==2",
            "",
            "",
        ),
    ],
)
def test_requirements_that_cannot_be_met(cause: str, more: str, message: str, where: str, hint: str):
    error = explain(f"{NONE}{cause}, {END}\n{more}", HERE)
    assert type(error) is Unsatisfied
    assert error.message.startswith(message) and hint in error.hint
    assert error.where == where


@pytest.mark.parametrize(
    ("stderr", "kind", "words", "where"),
    [
        (
            "error: Request failed after 3 retries in 6.3s\n  cause: Failed to fetch: http://index.test/simple/six/\n"
            "  cause: client error (Connect)\n  cause: Connection refused (os error 111)\n",
            Unreachable,
            "a package index could not be reached: Connection refused",
            "http://index.test/simple/six/",
        ),
        ("error: No space left on device (os error 28)\n", EngineError, "the disk is full", ""),
        ("warning: something\nerror: something new\n", SourceError, "uv failed: something new", ""),
        ("", SourceError, "uv failed", ""),
    ],
)
def test_other_errors(stderr: str, kind: type, words: str, where: str):
    error = explain(stderr, HERE)
    assert type(error) is kind
    assert words in error.message and error.where == where


@pytest.mark.parametrize(
    ("glibc", "expected"),
    [("2.17", "2_17"), ("2.27", "2_17"), ("2.28", "2_28"), ("2.30", "2_28"), ("2.36", "2_36"), ("2.41", "2_40")],
)
def test_platforms_that_uv_does_not_know_become_the_next_older_one(glibc: str, expected: str):
    assert python_platform(Platform("3.11", glibc)) == f"x86_64-manylinux_{expected}"
    assert python_platform(Platform("3.11", glibc, "aarch64")) == f"aarch64-manylinux_{expected}"


@pytest.mark.parametrize(
    ("settings", "indexes", "expected"),
    [
        # uv has the same default index as pip, so it is passed only if a setting names one.
        (PipSettings(index="https://default.test/", own_index=True), (), []),
        (PipSettings(index="https://own.test/"), (), ["--default-index=https://own.test/"]),
        (
            PipSettings(index="https://own.test/", extra_indexes=("https://more.test/",)),
            ("https://recipe.test/",),
            ["--default-index=https://own.test/", "--index=https://more.test/", "--index=https://recipe.test/"],
        ),
        (PipSettings(find_links=("file:///wheels",)), (), ["--find-links=file:///wheels", "--no-index"]),
        (
            PipSettings(trusted_hosts=("own.test",)),
            ("https://recipe.test/", "https://recipe.test/links.html"),
            [
                "--find-links=https://recipe.test/links.html",
                "--allow-insecure-host=own.test",
                "--default-index=https://recipe.test/",
            ],
        ),
    ],
)
def test_pips_settings_in_uvs_words(settings: PipSettings, indexes: tuple[str, ...], expected: list[str]):
    assert index_options(settings, indexes) == ["--index-strategy=unsafe-best-match", *expected]


def test_what_uv_sees_of_the_environment():
    settings = PipSettings(cert="/ca.pem", client_cert="/me.pem", proxy="http://proxy.test:1")
    found = environment({"UV_INDEX": "https://other.test", "UV_CACHE_DIR": "/cache", "PATH": "/bin"}, settings)
    assert "UV_INDEX" not in found
    assert found["UV_CACHE_DIR"] == "/cache" and found["PATH"] == "/bin"
    assert found["SSL_CERT_FILE"] == "/ca.pem" and found["SSL_CLIENT_CERT"] == "/me.pem"
    assert found["https_proxy"] == found["HTTP_PROXY"] == "http://proxy.test:1"
    assert environment({"REQUESTS_CA_BUNDLE": "/requests.pem"}, PipSettings())["SSL_CERT_FILE"] == "/requests.pem"


def test_what_uv_names_is_kept_for_repairs():
    words = "because all versions of bokeh have no usable wheels, a-b<=3.7 is available and c[x]==1.0 depends on d>=2"
    error = explain(f"{NONE}there is no version of six==1.99 and you require six==1.99, {words}, {END}", HERE)
    assert isinstance(error, Unsatisfied) and error.projects == ("six==1.99", "bokeh", "a-b", "c==1.0", "d")
    error = explain(
        f"{NONE}a>=1 depends on b<=7 and b>=6,<=7 has no usable wheels, {END} And because b==5 has no wheels", HERE
    )
    assert isinstance(error, Unsatisfied) and error.unusable == ("b>=6,<=7", "b==5")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://own.test/f/x.whl", "https://me:pass@own.test/f/x.whl"),
        ("http://own.test/f/x.whl", "http://own.test/f/x.whl"),
        ("https://own.test:8443/f/x.whl", "https://own.test:8443/f/x.whl"),
        ("https://other.test/f/x.whl", "https://other.test/f/x.whl"),
        ("https://you@own.test/f/x.whl", "https://you@own.test/f/x.whl"),
        ("https://token.test/x.whl", "https://:token@token.test/x.whl"),
    ],
)
def test_a_password_stays_on_the_server_of_its_index(url: str, expected: str):
    indexes = ["https://me:pass@own.test/simple", "https://:token@token.test/simple"]
    assert with_credentials(url, indexes) == expected


INDEX = {"matplotlib": ["3.7.1", "3.9.2"], "numpy": ["1.26.4", "2.4.6"], "pandas": ["1.5.3"]}


def newest(requirements: Sequence[str], constraints: Sequence[str]) -> dict[str, str]:
    """The newest version of each requirement within the constraints, as uv takes it."""
    found = {}
    for project in (Requirement(text).name for text in requirements):
        limits = [r.specifier for text in (*requirements, *constraints) if (r := Requirement(text)).name == project]
        within = [v for v in INDEX[project] if all(limit.contains(v) for limit in limits)]
        if not within:
            raise Unsatisfied(f"no {project}")
        found[project] = max(within, key=Version)
    return found


@pytest.mark.parametrize(
    ("requirements", "expected", "asked"),
    [
        (["matplotlib==3.7.1", "numpy"], {"matplotlib": "3.7.1", "numpy": "1.26.4"}, 2),
        (["matplotlib<3.8", "numpy>=2"], {"matplotlib": "3.7.1", "numpy": "2.4.6"}, 3),  # neither bound can be met
        (["matplotlib", "numpy"], {"matplotlib": "3.9.2", "numpy": "2.4.6"}, 1),
        (["matplotlib==3.7.1", "numpy==2.4.6"], {"matplotlib": "3.7.1", "numpy": "2.4.6"}, 1),
        (["matplotlib==3.7.1", "pandas", "numpy"], {"matplotlib": "3.7.1", "pandas": "1.5.3", "numpy": "1.26.4"}, 2),
    ],
)
def test_versions_within_the_facts(
    requirements: list[str], expected: dict[str, str], asked: int, reported: list[str]
) -> None:
    calls: list[Sequence[str]] = []

    def resolve(constraints: Sequence[str]) -> dict[str, str]:
        calls.append(constraints)
        return newest(requirements, constraints)

    def stack(versions: dict[str, str]) -> Stack:
        return Stack({"python": "3.11"}, resolved=resolved_wheels(versions.items(), ""))

    assert within_facts(resolve, stack, requirements) == expected
    assert len(calls) == asked
    assert bool(reported) == (expected["numpy"] == "1.26.4")
    assert all(line.startswith("numpy<2.0 is required too: ") for line in reported)
