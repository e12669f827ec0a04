"""What a lock tells of its recipe: stale sections, whether an image is fresh, and the versions that it resolved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.compat.evaluate import evaluate
from reprokit.compat.facts import bundled
from reprokit.compat.stack import stack_of
from reprokit.engine import LABEL
from reprokit.errors import UsageError, WorkFailed
from reprokit.image.labels import DOCKERFILE, INPUTS
from reprokit.image.lock.fit import errors_of, resolved_versions
from reprokit.image.lock.read import fresh_lock, freshness, needed_lock, recipe_lock, sections, stale, stale_image
from reprokit.image.render import render
from reprokit.recipe.find import Target
from reprokit.supply.lock.file import lock_path, write
from reprokit.supply.lock.model import AptPackage, Base, CondaPackage, Distribution, Lock, VariantLock
from tests.support.rendering import source
from tests.support.rendering import target as target_of

PYTHON = {"pins": {"python": "3.11"}, "blocks": ["python", "wheels"]}
SIX = {**PYTHON, "wheels": ["six==1.16.0"]}
NEWER_SIX = {**PYTHON, "wheels": ["six==1.17.0"]}
MATPLOTLIB = {**PYTHON, "wheels": ["matplotlib==3.7.1"]}
FIELDS = {
    "pins": {"python": "3.11", "gcc": "12"},
    "apt": ["curl"],
    "wheels": ["numpy==1.26.4"],
    "sources": [source("code", "/opt/code")],
    "blocks": ["apt", "python", "wheels", "git"],
}
FILE = {"sha256": "1" * 64, "size": 1}


def lock_of(target: Target, **entries: object) -> VariantLock:
    base = Base(reference=target.variant.base, digest="sha256:" + "1" * 64)
    lock = VariantLock(reprokit="1", inputs={}, python="3.11", glibc="2.36", machine="x86_64", base=base, **entries)
    return lock.model_copy(update={"inputs": sections(target, render(target), "x86_64")})


def written(target: Target, **entries: object) -> VariantLock:
    """A lock of the target, in its file."""
    lock = lock_of(target, **entries)
    write(lock_path(target.path), Lock(recipe="paper", variants={"v": lock}))
    return lock


# Sections that are stale, exactly where the recipe says another thing.


def stale_sections(tmp_path: Path, old: dict, **fields: object) -> list[str]:
    lock = lock_of(target_of(tmp_path, **old))
    target = target_of(tmp_path, **{**old, **fields})
    return stale(target, render(target), lock)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, []),
        ({"description": "another word", "env": {"A": "1"}}, []),
        ({"apt": ["curl", "jq"]}, ["apt"]),
        ({"wheels": ["numpy==1.26.3"]}, ["wheels"]),
        ({"wheel_indexes": ["https://wheels.test/simple"]}, ["wheels"]),
        ({"wheels": ["numpy==1.26.4", "setuptools==68.2.2"], "sdists": [{"package": "six==1.16.0"}]}, ["wheels"]),
        ({"sources": [source("code", "/opt/code", submodules=True)]}, ["git"]),
        ({"sources": [source("code", "/opt/code", commit="f" * 40)]}, ["git"]),
        ({"sources": [source("code", "/opt/elsewhere")]}, []),
        ({"base": "debian:11", "pins": {"python": "3.11"}}, ["base", "apt", "wheels"]),
    ],
)
def test_what_makes_which_section_stale(tmp_path, fields, expected):
    assert stale_sections(tmp_path, FIELDS, **fields) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, False),
        ({"env": {"A": "1"}}, False),
        ({"pins": {"python": "3.11", "cuda": "12.4"}}, True),
        ({"base": "debian:10"}, True),
        ({"conda": ["pytorch=2"]}, True),
    ],
)
def test_conda_is_solved_for_a_c_library_and_a_cuda(tmp_path, fields, expected):
    old = {"base": "debian:12", "pins": {"python": "3.11", "cuda": "11.8"}, "conda": ["pytorch"], "blocks": ["conda"]}
    assert ("conda" in stale_sections(tmp_path, old, **fields)) is expected


def test_a_block_of_another_name_makes_sets_stale(tmp_path):
    """A lock names blocks; a set that no block takes in would leave another block without its packages."""
    target = target_of(tmp_path, **FIELDS)
    made = render(target)
    other = replace(made, installs=tuple(replace(i, block=i.block.replace("apt", "own")) for i in made.installs))
    lock = lock_of(target, apt=(deb("curl", "1").model_copy(update={"blocks": ("apt",)}),))
    assert stale(target, made, lock) == []
    assert stale(target, other, lock) == ["apt"]


def test_the_hashes_of_sections_and_of_locks(tmp_path):
    target = target_of(tmp_path, **FIELDS)
    hashes = sections(target, render(target), "x86_64")
    assert len(set(hashes.values())) >= 5
    assert hashes == sections(target, render(target), "x86_64")
    assert hashes["apt"] != sections(target, render(target), "aarch64")["apt"]
    lock = lock_of(target)
    assert lock.hash == lock.model_copy(update={"reprokit": "2.0"}).hash
    assert lock.hash != lock.model_copy(update={"machine": "aarch64"}).hash


def test_a_stale_lock_is_refused_and_a_missing_one_is_named(tmp_path):
    target = target_of(tmp_path, **FIELDS)
    assert recipe_lock(target).variants == {} and fresh_lock(target, render(target)) is None
    with pytest.raises(UsageError, match="paper:v has no lock"):
        needed_lock(target)
    lock = written(target)
    assert needed_lock(target) == lock
    other = target_of(tmp_path, **{**FIELDS, "apt": ["jq"], "sources": [source("code", "/opt/code", commit="e" * 40)]})
    with pytest.raises(WorkFailed, match="stale: apt, git changed in the recipe") as raised:
        fresh_lock(other, render(other))
    assert "reprokit lock paper:v" in raised.value.hint


def labels_of(target: Target, lock: VariantLock | None = None) -> dict[str, str]:
    rendered = render(target)
    return {DOCKERFILE: rendered.digest, INPUTS: rendered.locked_hash(lock) if lock else "resolved"}


def test_without_a_lock_the_dockerfile_decides(tmp_path):
    target = target_of(tmp_path, **SIX)
    built = labels_of(target)
    assert (freshness(target, built), stale_image(target, built)) == ("no lock", None)
    changed = target_of(tmp_path, **NEWER_SIX)
    assert tuple(stale_image(changed, built)) == (
        "the image of paper:v is stale: recipe or lock have changed since it was built",
        "`reprokit build paper:v` renews it",
        False,
    )


def test_with_a_lock_all_inputs_decide(tmp_path):
    target = target_of(tmp_path, **SIX)
    built = labels_of(target, written(target))
    assert (freshness(target, built), stale_image(target, built)) == ("current", None)
    # An image with newer packages than the lock is not current.
    assert freshness(target, {**built, f"{LABEL}.drift": '["tree 1 -> 2"]'}) == "drifted"
    assert stale_image(target, {}).problem.endswith("since it was built")
    changed = target_of(tmp_path, **NEWER_SIX)
    problem, remedy, unknown = stale_image(changed, built)
    assert not unknown and problem.endswith("the recipe has changed since it was locked")
    assert "`reprokit lock paper:v`" in remedy
    newly = written(changed)
    assert stale_image(changed, built).remedy == "`reprokit build paper:v` renews it"
    assert stale_image(changed, labels_of(changed, newly)) is None


@pytest.mark.parametrize("broken", [{"blocks": ["pyhton"]}, {"blocks": ["python"]}])
def test_a_recipe_that_cannot_be_built_has_no_fresh_image(tmp_path, broken):
    built = labels_of(target_of(tmp_path, **SIX))
    problem, remedy, unknown = stale_image(target_of(tmp_path, **{**SIX, **broken}), built)
    assert unknown and problem.startswith("it is unknown whether the image of paper:v is stale: its recipe cannot be")
    assert "reprokit check paper:v" in remedy


@pytest.mark.parametrize(
    ("file", "content", "fields"),
    [
        ("a.patch", "diff", {"sources": [source("a", "/opt/a", patches=["a.patch"])], "blocks": ["git"]}),
        ("more/all.txt", "six==1.16.0", {**PYTHON, "wheels": [{"file": "more/all.txt"}]}),
        (
            "environment.yml",
            "dependencies: [ffmpeg=6.0]",
            {"conda": [{"file": "environment.yml"}], "blocks": ["conda"]},
        ),
        ("blocks/own.j2", "{#\ndoes: x\n#}\n{% block final %}\nRUN true\n{% endblock %}", {"blocks": ["own"]}),
    ],
)
@pytest.mark.slow
def test_a_file_that_is_missing_makes_it_unknown(tmp_path, file, content, fields):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(content)
    target = target_of(tmp_path, **fields)
    without = labels_of(target)
    assert stale_image(target, without) is None
    built = labels_of(target, written(target))
    assert stale_image(target, built) is None
    (tmp_path / file).unlink()
    for labels in (built, without):
        reason = stale_image(target_of(tmp_path, **fields), labels)
        assert reason.unknown and reason.line.startswith("it is unknown whether the image of paper:v is stale")
        lock_path(target.path).unlink(missing_ok=True)


# `check` before a build, and of what a lock has resolved.


def wheel(name: str, version: str, blocks: tuple[str, ...] = ("wheels",), form: str = "{}-{}-py3-none-any.whl", **more):
    return Distribution(name=name, version=version, file=form.format(name, version), blocks=blocks, **FILE, **more)


def deb(name: str, version: str) -> AptPackage:
    more = {"architecture": "amd64", "archive": "debian", "path": f"pool/{name}.deb"}
    return AptPackage(name=name, version=version, **more, **FILE)


def versions(target: Target) -> dict[str, str]:
    return {name: resolved.version for name, resolved in resolved_versions(target).items()}


def test_errors_stop_a_build_and_force_goes_past_them(tmp_path, reported: list[str]):
    assert errors_of(target_of(tmp_path, **SIX), False) == []
    clash = target_of(tmp_path, base="ubuntu:20.04", pins={"cuda": "10.2", "gcc": "9"}, blocks=["cuda"])
    with pytest.raises(WorkFailed) as error:
        errors_of(clash, False)
    assert error.value.exit_code == 1
    assert "cuda=10.2" in error.value.message and "gcc=9" in error.value.message
    assert "`reprokit check paper:v`" in error.value.hint and "--force" in error.value.hint
    errors = errors_of(clash, True)
    assert errors and reported == [f"ignored because of --force: {error}" for error in errors]


def test_an_error_of_what_a_lock_resolved_names_the_lock(tmp_path: Path):
    target = target_of(tmp_path, **MATPLOTLIB)
    assert errors_of(target, False) == []
    written(target, wheels=(wheel("matplotlib", "3.7.1"), wheel("numpy", "2.4.6")))
    with pytest.raises(WorkFailed) as error:
        errors_of(target, False)
    assert "compiled with NumPy 1" in error.value.message
    assert f"(numpy 2.4.6: locked by {tmp_path / 'paper.lock.yaml'})" in error.value.message
    assert "nearest: matplotlib=3.8.4, or numpy=1.26" in error.value.message
    assert "`reprokit lock paper:v --update numpy`" in error.value.hint
    # One that is not written yet.
    good = lock_of(target, wheels=(wheel("matplotlib", "3.7.1"), wheel("numpy", "1.26.4")))
    assert errors_of(target, False, good) == []
    # A stale section of a lock does not count.
    assert versions(target_of(tmp_path, **PYTHON, wheels=["matplotlib==3.9.2"])) == {"matplotlib": "3.9.2"}


def test_the_wheels_that_an_image_ends_with(tmp_path: Path):
    target = target_of(tmp_path, **MATPLOTLIB)
    wheels = (
        wheel("setuptools", "65.7.0"),
        wheel("setuptools", "69.5.1", ("torch",)),
        wheel("numpy", "2.4.6", build_only=True),
        wheel("h5py", "3.1.0", form="{}-{}.tar.gz"),
        wheel("torch-scatter", "2.1.2+pt21cu121"),
        wheel("opencv-python-headless", "4.9.0.80"),
        wheel("six", "1.16.0"),
    )
    written(target, wheels=wheels)
    assert versions(target) == {"setuptools": "65.7.0", "opencv_python": "4.9.0.80"}


@pytest.mark.parametrize(("wheels", "severity"), [(["pandas==1.1.0"], "error"), (["pandas==1.1.0", "six"], "warning")])
def test_a_release_without_a_wheel_is_built_only_beside_ranges(tmp_path: Path, wheels: list[str], severity: str):
    target = target_of(tmp_path, **PYTHON, wheels=wheels)
    (finding,) = evaluate(bundled(), stack_of(target.variant, resolved=resolved_versions(target)))
    assert (finding.rule, finding.severity) == ("pandas-python", severity)
    assert finding.nearest == ("pandas=1.5.0", "python=3.8")
    # The lock has its sdist, on which there are no facts.
    written(target, wheels=(wheel("pandas", "1.1.0", form="{}-{}.tar.gz"),))
    assert versions(target) == {}


def test_apt_packages_are_the_exact_versions_of_pins(tmp_path: Path):
    pins = {"python": "3.11", "gcc": "11", "cmake": "3.25", "llvm": "14", "cuda": "11.8"}
    target = target_of(tmp_path, pins=pins)
    packages = {
        "python3.11": "3.11.2-6+deb12u6", "gcc-11": "11.3.0-12", "gcc-12": "12.2.0-14+deb12u1", "cmake": "3.25.1-1",
        "llvm-14-dev": "1:14.0.6-12", "nvidia-cuda-toolkit": "11.8.89~11.8.0-5~deb12u1", "clang-14": "1:14.0.6-12",
    }  # fmt: skip
    written(target, apt=tuple(deb(*package) for package in packages.items()))
    assert versions(target) == {
        "python": "3.11.2", "gcc": "11.3.0", "cmake": "3.25.1", "llvm": "14.0.6", "cuda": "11.8.0"
    }  # fmt: skip


def test_wheels_replace_packages_of_conda_and_these_the_bases_own(tmp_path: Path):
    target = target_of(tmp_path, pins={"python": "3.12"})
    more = {"channel": "conda-forge", "subdir": "linux-64", "build": "0", **FILE}
    packages = {"python": "3.12.1", "numpy": "2.0.0"}
    conda = tuple(CondaPackage(name=n, version=v, file=f"{n}-{v}.conda", **more) for n, v in packages.items())
    written(target, apt=(deb("python3.12", "3.12.3-1"),), conda=conda, wheels=(wheel("numpy", "1.26.4"),))
    assert versions(target) == {"python": "3.12.1", "numpy": "1.26.4"}


def test_conda_has_matched_its_own_packages_but_not_wheels_beside_them(tmp_path: Path):
    """conda builds old packages for newer NumPys and Pythons; PyPI's wheels are as they are."""

    def errors(**entries: object) -> set[str]:
        written(target, **entries)
        findings = evaluate(bundled(), stack_of(target.variant, resolved=resolved_versions(target)))
        return {finding.rule for finding in findings if finding.severity == "error"}

    target = target_of(tmp_path, pins={"python": "3.12.1"})
    more = {"channel": "conda-forge", "subdir": "linux-64", "build": "0", **FILE}
    packages = {"numpy": "2.0.0", "matplotlib": "3.7.1", "python": "3.12.1", "scikit-learn": "1.0"}
    conda = tuple(CondaPackage(name=n, version=v, file=f"{n}-{v}.conda", **more) for n, v in packages.items())
    assert errors(conda=conda) == set()
    assert errors(conda=conda, wheels=(wheel("pandas", "1.5.3"),)) == {"pandas-python", "known-clash"}
