"""`check` before a build, and of what a lock has resolved."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.compat.evaluate import evaluate
from reprokit.compat.facts import bundled
from reprokit.compat.stack import stack_of
from reprokit.errors import WorkFailed
from reprokit.image.lock.fit import errors_of, resolved_versions
from reprokit.image.lock.sections import sections
from reprokit.image.render import render
from reprokit.recipe.find import Target
from reprokit.recipe.load import load_text
from reprokit.supply.lock.file import lock_path, write
from reprokit.supply.lock.model import AptPackage, Base, CondaPackage, Distribution, Lock, VariantLock
from tests.support.builds import RECIPE, target_of
from tests.support.rendering import target as rendered_target

CLASH = RECIPE.format(name="clash", base="ubuntu:20.04").replace('python: "3.11"', 'cuda: "10.2", gcc: "9"')


def clash() -> Target:
    target = target_of("x")
    return Target(load_text(CLASH, "clash.yaml", "clash"), "v", target.path)


def test_what_fits_goes_on_in_silence():
    assert errors_of(target_of("x"), False, pytest.fail) == []


def test_errors_stop_a_build_and_name_both_sides():
    with pytest.raises(WorkFailed) as error:
        errors_of(clash(), False, pytest.fail)
    assert error.value.exit_code == 1
    assert "cuda=10.2" in error.value.message and "gcc=9" in error.value.message
    assert "`reprokit check clash:v`" in error.value.hint and "--force" in error.value.hint


def test_force_goes_past_them_and_says_so():
    said: list[str] = []
    errors = errors_of(clash(), True, said.append)
    assert errors and said == [f"ignored because of --force: {error}" for error in errors]


WHEELS = {"pins": {"python": "3.11"}, "blocks": ["python", "wheels"], "wheels": ["matplotlib==3.7.1"]}
FILE = {"sha256": "1" * 64, "size": 1}


def wheel(name: str, version: str, blocks: tuple[str, ...] = ("wheels",), form: str = "{}-{}-py3-none-any.whl", **more):
    return Distribution(name=name, version=version, file=form.format(name, version), blocks=blocks, **FILE, **more)


def deb(name: str, version: str) -> AptPackage:
    more = {"architecture": "amd64", "archive": "debian", "path": f"pool/{name}.deb"}
    return AptPackage(name=name, version=version, **more, **FILE)


def lock_of(target: Target, **entries: object) -> VariantLock:
    base = Base(reference="debian:12", digest="sha256:" + "1" * 64)
    lock = VariantLock(reprokit="1", inputs={}, python="3.11", glibc="2.36", machine="x86_64", base=base, **entries)
    return lock.model_copy(update={"inputs": sections(target, render(target), "x86_64", lock.by_block)})


def written(target: Target, lock: VariantLock) -> Target:
    write(lock_path(target.path), Lock(recipe="paper", variants={"v": lock}))
    return target


def versions(target: Target) -> dict[str, str]:
    return {name: found.version for name, found in resolved_versions(target).items()}


def test_an_error_of_what_a_lock_resolved_names_the_lock(tmp_path: Path):
    target = rendered_target(tmp_path, **WHEELS)
    assert errors_of(target, False, pytest.fail) == []
    written(target, lock_of(target, wheels=(wheel("matplotlib", "3.7.1"), wheel("numpy", "2.4.6"))))
    with pytest.raises(WorkFailed) as error:
        errors_of(target, False, pytest.fail)
    assert "compiled with NumPy 1" in error.value.message
    assert f"(numpy 2.4.6: locked by {tmp_path / 'paper.lock.yaml'})" in error.value.message
    assert "nearest: matplotlib=3.8.4, or numpy=1.26" in error.value.message
    assert "`reprokit lock paper:v --update numpy`" in error.value.hint
    # One that is not written yet.
    good = lock_of(target, wheels=(wheel("matplotlib", "3.7.1"), wheel("numpy", "1.26.4")))
    assert errors_of(target, False, pytest.fail, good) == []


def test_a_stale_section_of_a_lock_does_not_count(tmp_path: Path):
    target = rendered_target(tmp_path, **WHEELS)
    written(target, lock_of(target, wheels=(wheel("matplotlib", "3.7.1"), wheel("numpy", "2.4.6"))))
    changed = rendered_target(tmp_path, **{**WHEELS, "wheels": ["matplotlib==3.9.2"]})
    assert versions(changed) == {"matplotlib": "3.9.2"}


def test_the_wheels_that_an_image_ends_with(tmp_path: Path):
    target = rendered_target(tmp_path, **WHEELS)
    wheels = (
        wheel("setuptools", "65.7.0"),
        wheel("setuptools", "69.5.1", ("torch",)),
        wheel("numpy", "2.4.6", build_only=True),
        wheel("h5py", "3.1.0", form="{}-{}.tar.gz"),
        wheel("torch-scatter", "2.1.2+pt21cu121"),
        wheel("opencv-python-headless", "4.9.0.80"),
        wheel("six", "1.16.0"),
    )
    found = versions(written(target, lock_of(target, wheels=wheels)))
    assert found == {"setuptools": "65.7.0", "opencv_python": "4.9.0.80"}


@pytest.mark.parametrize(("wheels", "severity"), [(["pandas==1.1.0"], "error"), (["pandas==1.1.0", "six"], "warning")])
def test_a_release_without_a_wheel_is_built_only_beside_ranges(tmp_path: Path, wheels: list[str], severity: str):
    target = rendered_target(tmp_path, **{**WHEELS, "wheels": wheels})
    (finding,) = evaluate(bundled(), stack_of(target.variant, resolved=resolved_versions(target)))
    assert (finding.rule, finding.severity) == ("pandas-python", severity)
    assert finding.nearest == ("pandas=1.5.0", "python=3.8")
    # The lock has its sdist, on which there are no facts.
    built = wheel("pandas", "1.1.0", form="{}-{}.tar.gz")
    assert versions(written(target, lock_of(target, wheels=(built,)))) == {}


def test_apt_packages_are_the_exact_versions_of_pins(tmp_path: Path):
    pins = {"python": "3.11", "gcc": "11", "cmake": "3.25", "llvm": "14", "cuda": "11.8"}
    target = rendered_target(tmp_path, pins=pins)
    packages = {
        "python3.11": "3.11.2-6+deb12u6", "gcc-11": "11.3.0-12", "gcc-12": "12.2.0-14+deb12u1", "cmake": "3.25.1-1",
        "llvm-14-dev": "1:14.0.6-12", "nvidia-cuda-toolkit": "11.8.89~11.8.0-5~deb12u1", "clang-14": "1:14.0.6-12",
    }  # fmt: skip
    lock = lock_of(target, apt=tuple(deb(*package) for package in packages.items()))
    assert versions(written(target, lock)) == {
        "python": "3.11.2", "gcc": "11.3.0", "cmake": "3.25.1", "llvm": "14.0.6", "cuda": "11.8.0"
    }  # fmt: skip


def test_conda_has_matched_its_own_packages_but_not_wheels_beside_them(tmp_path: Path):
    """conda builds old packages for newer NumPys and Pythons; PyPI's wheels are as they are."""

    def errors(**entries: object) -> set[str]:
        lock = lock_of(target, **entries)
        found = evaluate(bundled(), stack_of(target.variant, resolved=resolved_versions(written(target, lock))))
        return {f.rule for f in found if f.severity == "error"}

    target = rendered_target(tmp_path, pins={"python": "3.12.1"})
    fields = {"channel": "conda-forge", "subdir": "linux-64", "build": "0", **FILE}
    versions = {"numpy": "2.0.0", "matplotlib": "3.7.1", "python": "3.12.1", "scikit-learn": "1.0"}
    conda = tuple(
        CondaPackage(name=name, version=version, file=f"{name}-{version}.conda", **fields)
        for name, version in versions.items()
    )
    assert errors(conda=conda) == set()
    assert errors(conda=conda, wheels=(wheel("pandas", "1.5.3"),)) == {"pandas-python", "known-clash"}
