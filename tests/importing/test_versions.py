"""The time machine against an index that gives upload times, with uv itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

import pytest
from packaging.requirements import Requirement

from reprokit.compat.facts import bundled
from reprokit.errors import SourceError
from reprokit.importing.decision import Choice, Decision, PythonBase, Versions
from reprokit.importing.model import Origin
from reprokit.importing.repair import WheelChanges
from reprokit.importing.versions import versions_of
from reprokit.recipe.model import Variant
from reprokit.supply.kinds.wheels.platform import Platform
from reprokit.supply.mirrors import Mirrors
from tests.support.json_index import Index


@pytest.fixture
def resolved(index: Index, mirrors: Mirrors) -> Callable[..., Versions]:
    """Resolve requirements such as `a b==2`, of which `~c` is optional, as of a day and with preferred versions."""

    def run(requirements: str, day: str = "2021-06-01", **preferred: str) -> Versions:
        index.releases("setuptools 57.0 2021-05-01; wheel 0.36")
        texts = {text.removeprefix("~"): text[0] == "~" for text in requirements.split()}
        decision = Decision(
            name="tool",
            day=date.fromisoformat(day),
            base=PythonBase("debian:11", "3.9"),
            base_choice=Choice("debian:11"),
            requirements={Requirement(text).name: Choice(text, (Origin("setup.py", 7),)) for text in texts},
            preferred=preferred,
            optional=frozenset(text for text, optional in texts.items() if optional),
        )
        return versions_of(decision, Platform("3.9", "2.31"), mirrors, f"{day}T23:59:59Z")

    return run


def _summary(found: Versions) -> str:
    """The pins without build tools, the sdists as `+NAME==VERSION`, what is left out as `-NAME`."""
    pins = [f"{name}=={version}" for name, version in found.pins.items() if name not in ("setuptools", "wheel")]
    return " ".join(
        [*pins, *(f"+{sdist.package}" for sdist in found.sdists), *(f"-{n}" for n in sorted(found.left_out))]
    )


@pytest.mark.parametrize(
    ("requirements", "releases", "expected", "questions"),
    [
        # Facts bound versions, except those that a file pins.
        *(
            (
                requirements,
                "matplotlib 3.7.1 needs numpy>=1.20; numpy 1.26.4; numpy 2.0.2",
                f"matplotlib==3.7.1 {numpy}",
                [],
            )
            for requirements, numpy in (("matplotlib", "numpy==1.26.4"), ("matplotlib numpy==2.0.2", "numpy==2.0.2"))
        ),
        # The first wheel after the day
        (
            "compiled",
            "compiled 1.0 cp38; compiled 1.1 2021-08-01 cp39; compiled 2.0 2022-08-01 cp39",
            "compiled==1.1",
            ["on 2021-06-01 no compiled had a wheel for Python 3.9; 1.1 of 2021-08-01 is the first that has"],
        ),
        # An exact version without a wheel becomes the nearest.
        (
            "compiled==1.0",
            "compiled 1.0 cp38; compiled 0.9 cp39; compiled 1.1 cp39; compiled 1.2 cp39",
            "compiled==1.1",
            ["compiled==1.0 has no wheel for Python 3.9; 1.1 is the nearest that has"],
        ),
        # Where newer wheels do not fit, an older sdist is taken.
        (
            "plots strict",
            "low 1.0; low 2.0; strict 1.0 needs low<2; plots 2.4 needs low>=2; sdist plots 2.3 needs low",
            "low==1.0 strict==1.0 +plots==2.3",
            [],
        ),
        # The newest sdist that is allowed is built, though other Pythons have a wheel.
        (
            "user plots",
            "user 1.0 needs gd<=7.2; sdist gd 3.0 2016-01-01; sdist gd 7.2; gd 7.2 cp38; sdist gd 8.0; gd 8.0 cp39; "
            "sdist plots 3.2 needs gd>=6; plots 3.2 cp38 needs gd>=6; plots 3.3 needs gd>=6",
            "plots==3.3 user==1.0 +gd==7.2",
            [],
        ),
        # Of versions that contradict each other the least are lost, and asked about once.
        (
            "a b==2.0",
            "a 1.0 needs b<2; b 1.0; b 2.0",
            "a==1.0 b==1.0",
            ["b==2.0 is resolved without its version: it does not fit with the others"],
        ),
        (
            "a b==2.0",
            "a 1.0 needs b<2; b 1.0; b 2.1",
            "a==1.0 b==1.0",
            ["b==2.0 is resolved without its version: it does not fit with the others"],
        ),
        ("plain plian", "plain 1.0", "plain==1.0", ["the index has no plian, which is left out; is the name right?"]),
        # Of two distributions of a module the one that is there stays.
        (
            "sampler ~theano",
            "sampler 1.0 needs theano-pymc; theano_pymc 1.1; theano 1.0",
            "sampler==1.0 theano-pymc==1.1",
            [],
        ),
        # The error about a release names what others need, too.
        ("user", "user 2.0 needs new; user 1.0 needs old; sdist new 1.0; sdist old 1.0", "user==2.0 +new==1.0", []),
        # A wheel that excludes a newer Python
        ("backport", "backport 0.6 2020-01-01; backport 0.8 on >=3.6, <3.7", "backport==0.6", []),
        # The newest release of the day is built if it is only an sdist.
        ("tool>=0.4", "tool 0.1 2019-01-01; sdist tool 0.5; tool 0.9 2024-01-01", "+tool==0.5", []),
        (
            "tool[fast]>=0.4",
            "tool 0.1 2019-01-01; sdist tool 0.5; tool 0.9 2024-01-01",
            "+tool==0.5",
            ["tool 0.5 is built from an sdist, without its extras fast"],
        ),
        # jax follows a jaxlib that is newer than it.
        (
            "jax>=0.4 jaxlib",
            "jax 0.4.13 2021-05-01; jax 0.4.18 2021-09-01; jaxlib 0.4.18 2021-09-01 cp39",
            "jax==0.4.18 jaxlib==0.4.18",
            [
                "on 2021-06-01 no jaxlib had a wheel for Python 3.9; 0.4.18 of 2021-09-01 is the first that has",
                "jax 0.4.18 is taken: no older wheel of what jax loads can be had for Python 3.9",
            ],
        ),
    ],
)
@pytest.mark.slow
def test_versions_and_questions(index: Index, resolved, requirements, releases, expected, questions):
    index.releases(releases)
    found = resolved(requirements)
    assert _summary(found) == expected
    assert [question.text for question in found.questions] == questions
    assert {str(question.origin) for question in found.questions} <= {"setup.py:7"}


@pytest.mark.slow
def test_versions_are_those_of_the_day_and_of_lock_files(index: Index, resolved):
    for version, day in (("1.0", "2020-01-01"), ("1.1", "2021-05-31"), ("1.2", "2021-06-02")):
        index.releases(f"plain {version} {day} needs inner; inner {version} {day}")
    assert resolved("plain").pins == {"plain": "1.1", "inner": "1.1"}
    assert resolved("plain", inner="1.0", bad="x y").pins == {"plain": "1.1", "inner": "1.0"}
    assert resolved("plain", day="2021-06-03").pins["plain"] == "1.2"


@pytest.mark.slow
def test_an_sdist_is_read_and_not_built(index: Index, resolved):
    index.releases("user 1.0 needs source==0.5; inner 1.0")
    index.sdist("source", "0.5", "2021-01-01", 'inner>=0.1\n\n[extra]\nnever\n\n[:python_version < "3"]\nold\n')
    found = resolved("user")
    assert found.pins == {"user": "1.0", "inner": "1.0", "setuptools": "57.0", "wheel": "0.36"}
    assert [(s.package, s.requires) for s in found.sdists] == [("source==0.5", ["inner>=0.1"])]


@pytest.mark.slow
def test_what_builds_an_sdist_is_resolved_with_it(index: Index, resolved):
    index.releases("runner 2.0; backend 0.9; backend 1.5 2021-02-01")
    files = {
        "pyproject.toml": "[build-system]\nrequires = ['backend<1', 'setuptools']\n",
        "setup.py": "from setuptools import setup\nsetup(setup_requires=['runner', 'other @ https://x.test/y.zip'])\n",
    }
    index.sdist("source", "0.5", "2021-01-01", "", files)
    assert _summary(resolved("source")) == "backend==0.9 runner==2.0 +source==0.5"
    index.sdist("old", "0.5", "2021-01-01", "", {**files, "setup.py": "print 'Python 2'\n"})
    assert _summary(resolved("old")) == "backend==0.9 +old==0.5"


@pytest.mark.parametrize(
    ("requires", "needed"),
    [
        ("inner\n[:foo bar]\nother\n", ["inner"]),
        ("inner\n[:sys_platform ~= 'linux']\nattrs\n", ["inner", "attrs; sys_platform ~= 'linux'"]),
    ],
)
@pytest.mark.slow
def test_markers_of_an_sdist_that_cannot_be_evaluated_end_nothing(index: Index, resolved, requires, needed):
    index.releases("inner 1.0; attrs 1.0")
    index.sdist("source", "0.5", "2021-01-01", requires)
    [sdist] = resolved("source").sdists
    assert sdist.requires == needed


@pytest.mark.slow
def test_a_setup_py_that_takes_too_long_is_not_read_to_its_end(index: Index, resolved):
    levels = "".join(f"a{n + 1} = [{', '.join([f'a{n}'] * 20)}]\n" for n in range(30))
    index.releases("runner 2.0")
    code = f"a0 = []\n{levels}setup(setup_requires=['runner'], packages=a30)\n"
    index.sdist("source", "0.5", "2021-01-01", "", {"setup.py": code})
    assert _summary(resolved("source")) == "runner==2.0 +source==0.5"


@pytest.mark.slow
def test_an_sdist_names_the_packages_of_what_its_build_looks_for(index: Index, resolved):
    index.releases("user 1.0 needs images")
    index.sdist("images", "1.0", "2021-01-01", "", {"setup.py": "find('jpeglib.h', 'unknown.h')\n"})
    [choice] = resolved("user").apt
    assert (choice.value, choice.why) == ("libjpeg-dev", "the sdist of images looks for jpeglib.h")


@pytest.mark.slow
def test_what_only_an_optional_part_needs_changes_nothing_else(index: Index, resolved):
    index.releases("common 1.0; common 2.0 2021-02-01; fits 1.0 needs inner; inner 1.0; strict 1.0 needs common<2")
    index.sdist("built", "1.0", "2021-01-01", "", {"k.c": ""})
    index.releases("sdist pure 1.0")
    found = resolved("common ~fits ~strict ~built ~pure")
    assert _summary(found) == "common==2.0 fits==1.0 inner==1.0 +pure==1.0 -built -strict"
    assert [question.text.partition(";")[0] for question in found.questions] == [
        "no wheel of strict fits the others",
        "no wheel of built fits the others",
    ]


@pytest.mark.slow
def test_an_old_release_does_not_replace_one_that_needs_a_pure_sdist(index: Index, resolved):
    index.wheel("source", "0.1", "2018-01-01", "cp27-cp27m-manylinux1_x86_64")
    index.releases("backend 0.1 2018-01-01; backend 1.2 needs source>=0.2; sdist source 0.2; source 0.3 2022-01-01")
    index.releases("capped 1.0; capped 2.0; strict 1.0 needs capped<2; strict 0.9 2019-01-01")
    index.releases("kernels 0.1 2018-01-01; kernels 1.2 needs built")
    index.sdist("built", "1.0", "2021-01-01", "", {"k.c": ""})
    found = resolved("backend strict capped kernels")
    # Of strict and capped one goes back in any case.
    assert _summary(found) == "backend==1.2 capped==2.0 kernels==0.1 strict==0.9 +source==0.2"
    assert not found.questions


@pytest.mark.slow
def test_an_index_without_upload_times_is_named_and_a_single_file_without_its_own_is_taken(index: Index, resolved):
    index.times = False
    index.releases("plain 1.0")
    with pytest.raises(SourceError, match="no upload times"):
        resolved("plain")
    index.times = True
    index.releases("pip 20.0 2020-01-01")
    found = resolved("plain")
    assert found.pins["plain"] == "1.0" and "does not say since when" in found.questions[0].text


@pytest.mark.parametrize(
    ("requirement", "wheels", "expected"),
    [
        # A new wheel is of the day, with what it needs.
        ("plain", "numpy==1.0 user==1.0", "add wheels/- inner==1.1, add wheels/- plain==1.1"),
        ("numpy==1.1", "numpy==1.0 user==1.0", "replace pins/numpy 1.1, replace wheels/0 numpy==1.1"),
        # Of a project younger than the day, the first release is taken.
        ("young", "numpy==1.0 user==1.0", "add wheels/- young==1.0"),
        ("inner", "numpy==1.0 user==1.0 young==1.0", "add wheels/- inner==1.1"),
        # Others follow where they must.
        ("inner==1.1", "needy==1.0 inner==1.0", "replace wheels/0 needy==1.1, replace wheels/1 inner==1.1"),
        ("numpy>=2", "numpy==1.0 user==1.0", "numpy>=2: the wheels do not fit together: "),
        ("missing", "numpy==1.0 user==1.0", "missing: no index has a wheel of missing for Python 3.9 and glibc 2.31"),
    ],
)
@pytest.mark.slow
def test_a_requirement_that_comes_later_changes_the_wheels(
    index: Index, mirrors: Mirrors, requirement, wheels, expected
):
    for version, day in (("1.0", "2020-01-01"), ("1.1", "2021-01-01"), ("2.0", "2022-01-01")):
        index.releases(f"numpy {version} {day}; plain {version} {day} needs inner; inner {version} {day}")
    index.releases("user 1.0 2020-01-01 needs numpy<2; young 1.0 2022-01-01; young 2.0 2025-01-01")
    index.releases("needy 1.0 2020-01-01 needs inner==1.0; needy 1.1 2020-01-01 needs inner==1.1")
    pins = {"distro": "debian:11", "python": "3.9", "numpy": "1.0"}
    variant = Variant.model_validate({"base": "debian:11", "pins": pins, "wheels": wheels.split()})
    found = WheelChanges("2021-06-01T23:59:59Z", {}, mirrors, bundled())
    changes = found.of(variant, Requirement(requirement))
    if not isinstance(changes, str):
        lines = [f"{change.op} {change.path.removeprefix('/variants/*/')} {change.value}" for change in changes]
        changes = ", ".join(sorted(lines))
    assert changes == expected or (requirement == "numpy>=2" and changes.startswith(expected))
