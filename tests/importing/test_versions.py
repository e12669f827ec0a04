"""The time machine against an index that gives upload times, with uv itself."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from reprokit.config import Configuration
from reprokit.errors import SourceError
from reprokit.importing.decision import Choice, Decision, PythonBase
from reprokit.importing.model import Origin
from reprokit.importing.versions import versions_of
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.kinds.wheels.platform import Platform
from reprokit.supply.mirrors.places import Mirrors
from tests.support.fetching import HOSTS
from tests.support.json_index import Index
from tests.support.upstream import Upstream


@pytest.fixture
def resolved(store, tmp_path, upstream: Upstream):
    def run(
        index: Index,
        *requirements: str,
        preferred: dict[str, str] = {},  # noqa: B006
        optional: set[str] = set(),  # noqa: B006
        day: str = "2021-06-01",
    ):
        index.wheel("setuptools", "57.0", "2021-05-01")
        index.wheel("wheel", "0.36", "2021-01-01")
        settings = PipSettings(index=f"http://127.0.0.1:{upstream.port}/simple/")
        mirrors = Mirrors(store, Configuration(hosts=HOSTS), pip=settings)
        origin = Origin("setup.py", 7)
        decision = Decision(
            name="tool",
            day=date.fromisoformat(day),
            base=PythonBase("debian:11", "3.9"),
            base_choice=Choice("debian:11"),
            requirements={Requirement(text).name: Choice(text, (origin,)) for text in requirements},
            preferred=preferred,
            optional=frozenset(optional),
        )
        return versions_of(decision, Platform("3.9", "2.31"), mirrors, lambda line: None, f"{day}T23:59:59Z")

    return run


@pytest.fixture
def index(upstream: Upstream, tmp_path: Path) -> Index:
    return Index(upstream, tmp_path / "wheels")


@pytest.mark.slow
def test_versions_are_those_of_the_day_and_of_lock_files(index: Index, resolved):
    for version, day in (("1.0", "2020-01-01"), ("1.1", "2021-05-31"), ("1.2", "2021-06-02")):
        index.wheel("plain", version, day, requires=("inner",))
        index.wheel("inner", version, day)
    assert resolved(index, "plain").pins == {"plain": "1.1", "inner": "1.1"}
    assert resolved(index, "plain", preferred={"inner": "1.0", "bad": "x y"}).pins == {"plain": "1.1", "inner": "1.0"}
    assert resolved(index, "plain", day="2021-06-03").pins["plain"] == "1.2"


def test_versions_are_within_the_facts(index: Index, resolved):
    index.wheel("matplotlib", "3.7.1", "2021-01-01", requires=("numpy>=1.20",))
    index.wheel("numpy", "1.26.4", "2021-01-01")
    index.wheel("numpy", "2.0.2", "2021-02-01")
    assert resolved(index, "matplotlib==3.7.1").pins["numpy"] == "1.26.4"
    assert resolved(index, "matplotlib==3.7.1", "numpy==2.0.2").pins["numpy"] == "2.0.2"


def test_the_first_wheel_after_the_day_is_taken_and_named(index: Index, resolved):
    index.wheel("compiled", "1.0", "2021-01-01", "cp38-cp38-manylinux2014_x86_64")
    index.wheel("compiled", "1.1", "2021-08-01", "cp39-cp39-manylinux2014_x86_64")
    index.wheel("compiled", "2.0", "2022-08-01", "cp39-cp39-manylinux2014_x86_64")
    found = resolved(index, "compiled")
    assert found.pins == {"compiled": "1.1"}
    [question] = found.questions
    assert (
        question.text
        == ("on 2021-06-01 no compiled had a wheel for Python 3.9; 1.1 of 2021-08-01 is the first that has")
        and str(question.origin) == "setup.py:7"
    )


def test_an_exact_version_without_a_wheel_becomes_the_nearest(index: Index, resolved):
    index.wheel("compiled", "1.0", "2021-01-01", "cp38-cp38-manylinux2014_x86_64")
    for version in ("0.9", "1.1", "1.2"):
        index.wheel("compiled", version, "2021-02-01", "cp39-cp39-manylinux2014_x86_64")
    found = resolved(index, "compiled==1.0")
    assert found.pins == {"compiled": "1.1"} and "compiled==1.0 has no wheel for Python 3.9" in found.questions[0].text


@pytest.mark.slow
def test_an_sdist_is_read_and_not_built(index: Index, resolved):
    index.wheel("user", "1.0", "2021-01-01", requires=("source==0.5",))
    index.wheel("inner", "1.0", "2021-01-01")
    needs = 'inner>=0.1\n\n[extra]\nnever\n\n[:python_version < "3"]\nold\n'
    index.sdist("source", "0.5", "2021-01-01", needs)
    found = resolved(index, "user")
    assert found.pins == {"user": "1.0", "inner": "1.0", "setuptools": "57.0", "wheel": "0.36"}
    assert [(s.package, s.requires) for s in found.sdists] == [("source==0.5", ["inner>=0.1"])]


@pytest.mark.slow
def test_what_builds_an_sdist_is_resolved_with_it(index: Index, resolved):
    index.wheel("runner", "2.0", "2021-01-01")
    index.wheel("backend", "0.9", "2021-01-01")
    index.wheel("backend", "1.5", "2021-02-01")
    files = {
        "pyproject.toml": "[build-system]\nrequires = ['backend<1', 'setuptools']\n",
        "setup.py": "from setuptools import setup\nsetup(setup_requires=['runner', 'other @ https://x.test/y.zip'])\n",
    }
    index.sdist("source", "0.5", "2021-01-01", "", files)
    pins = resolved(index, "source").pins
    assert (pins["runner"], pins["backend"]) == ("2.0", "0.9") and "other" not in pins
    index.sdist("old", "0.5", "2021-01-01", "", {**files, "setup.py": "print 'Python 2'\n"})
    assert "runner" not in resolved(index, "old").pins


@pytest.mark.parametrize(
    ("requires", "needed"),
    [
        ("inner\n[:foo bar]\nother\n", ["inner"]),
        ("inner\n[:sys_platform ~= 'linux']\nattrs\n", ["inner", "attrs; sys_platform ~= 'linux'"]),
    ],
)
@pytest.mark.slow
def test_markers_of_an_sdist_that_cannot_be_evaluated_end_nothing(index: Index, resolved, requires, needed):
    index.wheel("inner", "1.0", "2021-01-01")
    index.wheel("attrs", "1.0", "2021-01-01")
    index.sdist("source", "0.5", "2021-01-01", requires)
    [found] = resolved(index, "source").sdists
    assert found.requires == needed


@pytest.mark.slow
def test_a_setup_py_that_takes_too_long_is_not_read_to_its_end(index: Index, resolved):
    levels = "".join(f"a{n + 1} = [{', '.join([f'a{n}'] * 20)}]\n" for n in range(30))
    index.wheel("runner", "2.0", "2021-01-01")
    code = f"a0 = []\n{levels}setup(setup_requires=['runner'], packages=a30)\n"
    index.sdist("source", "0.5", "2021-01-01", "", {"setup.py": code})
    found = resolved(index, "source")
    assert [s.package for s in found.sdists] == ["source==0.5"] and found.pins["runner"] == "2.0"


@pytest.mark.slow
def test_where_newer_wheels_do_not_fit_an_older_sdist_is_taken(index: Index, resolved):
    index.wheel("common", "1.0", "2021-01-01")
    index.wheel("common", "2.0", "2021-01-02")
    index.wheel("strict", "1.0", "2021-01-01", requires=("common<2",))
    index.wheel("plots", "2.4", "2021-03-01", requires=("common>=2",))
    index.sdist("plots", "2.3", "2021-02-01", "common\n")
    found = resolved(index, "plots", "strict")
    assert found.pins["common"] == "1.0" and [s.package for s in found.sdists] == ["plots==2.3"]


@pytest.mark.slow
def test_the_newest_sdist_that_is_allowed_is_built_though_other_pythons_have_a_wheel(index: Index, resolved):
    index.wheel("user", "1.0", "2021-01-01", requires=("images<=7.2",))
    index.sdist("images", "3.0", "2016-01-01", "")
    for version in ("7.2", "8.0"):
        index.sdist("images", version, "2021-01-01", "")
        python = "cp39-cp39" if version == "8.0" else "cp38-cp38"
        index.wheel("images", version, "2021-01-01", f"{python}-manylinux2014_x86_64")
    assert [s.package for s in resolved(index, "user").sdists] == ["images==7.2"]
    index.sdist("plots", "3.2", "2021-01-01", "images>=6\n")
    index.wheel("plots", "3.2", "2021-01-01", "cp38-cp38-manylinux2014_x86_64", requires=("images>=6",))
    index.wheel("plots", "3.3", "2021-01-01", requires=("images>=6",))
    assert [s.package for s in resolved(index, "user", "plots").sdists] == ["images==7.2"]


@pytest.mark.slow
def test_an_sdist_names_the_packages_of_what_its_build_looks_for(index: Index, resolved):
    index.wheel("user", "1.0", "2021-01-01", requires=("images",))
    index.sdist("images", "1.0", "2021-01-01", "", {"setup.py": "find('jpeglib.h', 'unknown.h')\n"})
    [choice] = resolved(index, "user").apt
    assert (choice.value, choice.why) == ("libjpeg-dev", "the sdist of images looks for jpeglib.h")


@pytest.mark.slow
def test_versions_that_contradict_each_other_lose_the_least_of_them(index: Index, resolved):
    index.wheel("a", "1.0", "2021-01-01", requires=("b<2",))
    index.wheel("b", "1.0", "2021-01-01")
    index.wheel("b", "2.0", "2021-01-01")
    found = resolved(index, "a", "b==2.0")
    assert found.pins == {"a": "1.0", "b": "1.0"} and "does not fit with the others" in found.questions[0].text


def test_what_no_index_has_is_left_out_and_asked(index: Index, resolved):
    index.wheel("plain", "1.0", "2021-01-01")
    found = resolved(index, "plain", "plian")
    assert found.pins == {"plain": "1.0"} and "the index has no plian" in found.questions[0].text


@pytest.mark.slow
def test_what_only_an_optional_part_needs_changes_nothing_else(index: Index, resolved):
    index.wheel("common", "1.0", "2021-01-01")
    index.wheel("common", "2.0", "2021-02-01")
    index.wheel("fits", "1.0", "2021-01-01", requires=("inner",))
    index.wheel("inner", "1.0", "2021-01-01")
    index.wheel("strict", "1.0", "2021-01-01", requires=("common<2",))
    index.sdist("built", "1.0", "2021-01-01", "", {"k.c": ""})
    index.sdist("pure", "1.0", "2021-01-01", "")
    names = ("fits", "strict", "built", "pure")
    found = resolved(index, "common", *names, optional=set(names))
    assert {k: v for k, v in found.pins.items() if k not in ("setuptools", "wheel")} == {
        "common": "2.0", "fits": "1.0", "inner": "1.0",
    }  # fmt: skip
    assert found.left_out == {"strict", "built"} and [s.package for s in found.sdists] == ["pure==1.0"]
    assert [(q.text.partition(";")[0], str(q.origin)) for q in found.questions] == [
        ("no wheel of strict fits the others", "setup.py:7"), ("no wheel of built fits the others", "setup.py:7"),
    ]  # fmt: skip


def test_of_two_distributions_of_a_module_the_one_that_is_there_stays(index: Index, resolved):
    index.wheel("sampler", "1.0", "2021-01-01", requires=("theano-pymc",))
    index.wheel("theano_pymc", "1.1", "2021-01-01")
    index.wheel("theano", "1.0", "2021-01-01")
    found = resolved(index, "sampler", "theano", optional={"theano"})
    assert "theano-pymc" in found.pins and "theano" not in found.pins and not found.questions


@pytest.mark.slow
def test_an_sdist_that_older_releases_would_need_is_not_taken(index: Index, resolved):
    """The error about a release names what others need too."""
    index.wheel("user", "2.0", "2021-01-01", requires=("new",))
    index.wheel("user", "1.0", "2020-01-01", requires=("old",))
    index.sdist("new", "1.0", "2021-01-01", "")
    index.sdist("old", "1.0", "2020-01-01", "")
    assert [s.package for s in resolved(index, "user").sdists] == ["new==1.0"]


@pytest.mark.slow
def test_an_old_release_does_not_replace_one_that_needs_a_pure_sdist(index: Index, resolved):
    index.wheel("backend", "0.1", "2018-01-01")
    index.wheel("backend", "1.2", "2021-01-01", requires=("source>=0.2",))
    index.wheel("source", "0.1", "2018-01-01", "cp27-cp27m-manylinux1_x86_64")
    index.sdist("source", "0.2", "2021-01-01", "")
    index.wheel("source", "0.3", "2022-01-01")
    index.wheel("capped", "1.0", "2021-01-01")
    index.wheel("capped", "2.0", "2021-01-01")
    index.wheel("strict", "1.0", "2021-01-01", requires=("capped<2",))
    index.wheel("kernels", "0.1", "2018-01-01")
    index.wheel("kernels", "1.2", "2021-01-01", requires=("built",))
    index.sdist("built", "1.0", "2021-01-01", "", {"k.c": ""})
    index.wheel("strict", "0.9", "2019-01-01")
    found = resolved(index, "backend", "strict", "capped", "kernels")
    assert found.pins["backend"] == "1.2" and found.pins["kernels"] == "0.1"
    assert (found.pins["strict"], found.pins["capped"]) == ("0.9", "2.0")  # one of the two goes back in any case
    assert [s.package for s in found.sdists] == ["source==0.2"] and not found.questions


def test_a_wheel_that_excludes_a_newer_python_is_not_taken(index: Index, resolved):
    index.wheel("backport", "0.6", "2020-01-01")
    index.wheel("backport", "0.8", "2021-01-01", python=">=3.6, <3.7")
    assert resolved(index, "backport").pins["backport"] == "0.6"


@pytest.mark.slow
def test_the_newest_release_of_the_day_is_built_if_it_is_only_an_sdist(index: Index, resolved):
    index.wheel("tool", "0.1", "2019-01-01")
    index.sdist("tool", "0.5", "2021-01-01", "")
    index.wheel("tool", "0.9", "2024-01-01")
    found = resolved(index, "tool>=0.4")
    assert [s.package for s in found.sdists] == ["tool==0.5"] and not found.questions
    [question] = resolved(index, "tool[fast]>=0.4").questions
    assert question.text == "tool 0.5 is built from an sdist, without its extras fast"


@pytest.mark.slow
def test_jax_follows_a_jaxlib_that_is_newer_than_it(index: Index, resolved):
    for version, day in (("0.4.13", "2021-05-01"), ("0.4.18", "2021-09-01")):
        index.wheel("jax", version, day)
    index.wheel("jaxlib", "0.4.18", "2021-09-01", "cp39-cp39-manylinux2014_x86_64")
    found = resolved(index, "jax>=0.4", "jaxlib")
    assert (found.pins["jax"], found.pins["jaxlib"]) == ("0.4.18", "0.4.18")
    assert any(q.text.startswith("jax 0.4.18 is taken") for q in found.questions)


@pytest.mark.slow
def test_a_version_that_is_given_up_is_asked_about_once(index: Index, resolved):
    index.wheel("a", "1.0", "2021-01-01", requires=("b<2",))
    index.wheel("b", "1.0", "2021-01-01")
    index.wheel("b", "2.1", "2021-01-01")
    [question] = resolved(index, "a", "b==2.0").questions
    assert question.text == "b==2.0 is resolved without its version: it does not fit with the others"


def test_an_index_without_upload_times_is_named(upstream: Upstream, tmp_path: Path, resolved):
    index = Index(upstream, tmp_path / "wheels", times=False)
    index.wheel("plain", "1.0", "2021-01-01")
    with pytest.raises(SourceError, match="no upload times"):
        resolved(index, "plain")


def test_of_an_index_with_times_a_single_file_may_lack_its_own(upstream: Upstream, tmp_path: Path, resolved):
    index = Index(upstream, tmp_path / "wheels")
    index.wheel("pip", "20.0", "2020-01-01")
    index.times = False
    index.wheel("plain", "1.0", "2021-01-01")
    index.times = True
    found = resolved(index, "plain")
    assert found.pins["plain"] == "1.0" and "does not say since when" in found.questions[0].text
