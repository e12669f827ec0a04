"""The facts folder: every source exists, every key has a field or is for readers, and values stay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_type_hints

import pytest
from packaging.specifiers import SpecifierSet
from pydantic import BaseModel, ValidationError

from reprokit.compat.facts import FOLDER, Facts, bundled, read
from reprokit.compat.schema import Api
from reprokit.compat.version import key
from reprokit.recipe.pin_names import PACKAGES, PIN_NAMES

FILES = sorted(str(p.relative_to(FOLDER).with_suffix("")) for p in FOLDER.rglob("*.yaml"))
TYPED = [*get_type_hints(Facts)]


def _entries(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each key of a file with its value, and each item of a list under its number."""
    if isinstance(value, dict | list):
        for key_or_number, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield key_or_number, inner
            yield from _entries(inner)


def test_sources_exist_and_are_used_and_versions_are_strings() -> None:
    sources: dict[str, set[str]] = {}
    for name in FILES:
        entries = list(_entries(read(name)))
        assert [entry for entry in entries if float in map(type, entry)] == [], name
        lists = [value for key, value in entries if str(key).startswith("source") and isinstance(value, list)]
        sources[name] = {source for each in lists for source in each}
    del sources["sources"]
    assert [name for name, each in sources.items() if not each] == []
    assert [name for name, each in sources.items() if not each <= {*bundled().sources}] == []
    rules = "".join(path.read_text(encoding="utf-8") for path in (FOLDER.parent / "rules").glob("*.py"))
    unused = {*bundled().sources}.difference(*sources.values())
    assert [source for source in unused if f'"{source}"' not in rules] == []
    assert [group.names for group in bundled().gpus.groups if not group.source and not group.unverified] == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("cuda toolkits 11.1 driver_by_release 11.1.1", "455.32.00"),
        ("cuda toolkits 11.4 gcc max_by_release", {"11.4.0": "10"}),
        ("cuda toolkits 10.1 clang", {"min": "3.8", "max": "8.0", "max_by_release": {"10.1.105": "7.0"}}),
        ("cuda toolkits 12.3 gcc max", "12"),
        ("cuda toolkits 13.4 driver_min", None),
        ("cuda families 12.x driver_min", "525"),
        ("images nvidia_cuda listed 11.8.0 cudnn_by_ubuntu", {"18.04": "8.6.0.163"}),
        ("images nvidia_cuda listed 12.9.2 ubuntu", ["20.04", "22.04", "24.04"]),
        ("torch releases 1.8.0 sm cu102", [37, 50, 60, 70]),
        ("torch releases 1.8.0 measured ptx", []),
        ("torch releases 2.14.1 ptx cu132", [120]),
        ("torch releases 1.9.0 conda_builds", ["11.3"]),
        ("torch_build cpp_extension gcc_below 12.8", [14, 15]),
        ("dgl pypi_cpu releases 0.8.0.post1", ["cp310"]),
        ("dgl device_code dgl-cu102 ptx", ["compute_50"]),
        ("tvm releases 0.7.0 llvm_handled", 11),
        ("tvm pypi llvm version", 22),
        ("llvm archives debian:11 majors", ["9", "11", "13", "16", "19", "22"]),
        ("distros distros debian:12 glibc", "2.36"),
        ("python last_setuptools 3.6", "59.6.0"),
        ("containers gpus_flag docker_min", "19.03"),
        ("containers debian_podman trixie", "5.4.2"),
        ("debian ninja bookworm", "1.11.1"),
        ("pypi ranges nvidia-cudnn-cu13 last", "9.28.0.42"),
        ("transformers releases 4.11.1 huggingface_hub_works", "0.0.19"),
        ("numpy projects 0 numpy_below", "1.24"),
    ],
)
def test_facts_keep_their_values(path: str, value: object) -> None:
    name, *steps = path.split(" ")
    found: Any = read(name)
    for step in steps:
        found = found[int(step)] if isinstance(found, list) else found[step]
    assert found == value


def test_first_and_last_cuda_agree_with_the_toolkits() -> None:
    facts = read("cuda")
    for table, pick in (("first_for_capability", min), ("last_for_capability", max)):
        for capability, stated in facts[table].items():
            sm = int(capability.replace(".", ""))
            having = [v for v, t in facts["toolkits"].items() if sm in t["sm"]]
            # sm_60 and sm_61 came with CUDA 8.0, which is older than the toolkits here.
            assert stated == "8.0" or pick(having, key=key) == stated, capability


# What no rule reads: notes, and what was found beside the facts.
_FOR_READERS = """
abi apt_llvm_org_note apt_llvm_used_by_upstream arch_list_rule build build_archs build_from_source ci_llvm conda
confirmed_by_users cuda10_on_pypi cuda_major_mismatch cuda_max cuda_recommended cuda_tensor_core cudnn_note
cudnn_unverified cutlass cxx11_abi debian debian_note default device_code_note doc_states driver_note
driver_unverified effective_rule fa3 families families_note first_for_capability first_pypi_default_with_native_sm
flavours gcc_alternatives gcc_below_note gcc_min_centos gcc_note glibc_note glibc_others gone gone_note has_cuda
has_cudnn huggingface_hub_below huggingface_hub_works image_unverified last_in last_note last_pip
last_published last_setuptools llvm llvm_rule measured missing modeling_bert ninja_min ninja_note not_live_checked
note notes other_packages package platform policy prereleases projects_note pypi pypi_cuda_note pypi_pins
python_docs python_note pytorch rebuild_path removed repositories requires_python rules since sizes_mb sm_max_cuda
sm_specific source_build_archs source_capabilities source_capability source_clang source_debian source_glibcxx
source_pypi_cuda source_python_docs source_python_note suite tag_pattern torch_jit torch_note torch_unverified
ubuntu unverified unverified_fields wheel_compiler wheel_index wheel_tag wheel_vs_conda_sm
"""
FOR_READERS = frozenset(_FOR_READERS.split())


def _untyped(value: Any) -> Iterator[str]:
    """The keys of facts that are no field of the schema."""
    if isinstance(value, BaseModel):
        yield from value.model_extra or ()
        value = dict(value)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ():
        yield from _untyped(inner)


def test_files_and_packages_follow_their_schema() -> None:
    assert {file for file in FILES if "/" not in file} - {*TYPED} == {"containers", "debian", "pypi"}
    facts = {name: getattr(Facts(), name) for name in TYPED}
    assert [name for name, each in facts.items() if not each or not {*_untyped(each)} <= FOR_READERS] == []
    packages = {name: bundled().package(name) for name in PACKAGES}
    assert [name for name, each in packages.items() if not each.versions or {*_untyped(each)}] == []
    misspelt = {"x": (Api.model_validate({"removed_in": "1.0", "last_in": "0.9", "removed_inn": "1.0"}),)}
    assert {*_untyped(misspelt)} - FOR_READERS == {"removed_inn"}


def test_requirements_name_pins_and_are_as_pip_writes_them() -> None:
    for file in (f for f in FILES if f.startswith("requires/")):
        facts = bundled().package(file.removeprefix("requires/"))
        assert {*facts.needs} <= {*PIN_NAMES}, file
        specs = [spec for rows in facts.needs.values() for row in rows for spec in (row.spec, row.python)]
        for spec in (*specs, *(row.spec for row in facts.python)):
            SpecifierSet(spec)


@pytest.mark.parametrize(("fact", "fault"), [({"removed_in": 1.0}, "removed_in"), ([], "Api")])
def test_a_mistyped_fact_is_refused(fact: object, fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        Api.model_validate(fact)


def test_a_source_is_cited_by_its_text() -> None:
    assert bundled().cite("nv_cuda_gpus") == "developer.nvidia.com/cuda-gpus"
    assert bundled().cite("no such id") == "no such id"
