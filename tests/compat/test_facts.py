"""The facts folder: every source exists, and nothing of what was collected is lost."""

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


def _sources(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if str(name).startswith("source") and isinstance(inner, list):
                yield from ((path, s) for s in inner)
            else:
                yield from _sources(inner, f"{path}/{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from _sources(inner, path)


@pytest.mark.parametrize("name", [f for f in FILES if f != "sources"])
def test_every_source_is_known(name: str) -> None:
    used = list(_sources(read(name), name))
    assert used
    assert [(p, s) for p, s in used if s not in bundled().sources] == []


def test_every_source_is_used_or_cited_by_a_rule() -> None:
    used = {s for name in FILES if name != "sources" for _, s in _sources(read(name), name)}
    rules = "".join(p.read_text(encoding="utf-8") for p in (FOLDER.parent / "rules").glob("*.py"))
    unused = {s for s in bundled().sources if s not in used and f'"{s}"' not in rules}
    assert unused == set()


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield path, name
            yield from _leaves(inner, f"{path}/{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, path)
    else:
        yield path, value


@pytest.mark.parametrize("name", FILES)
def test_versions_are_strings(name: str) -> None:
    assert [(p, v) for p, v in _leaves(read(name), name) if isinstance(v, float)] == []


def test_unverified_facts_without_source_say_so() -> None:
    for group in bundled().gpus.groups:
        assert group.source or group.unverified, group.names


class _Raw:
    def __getitem__(self, name: str) -> Any:
        return read(name)


# Counts of what was collected in November 2026; a fact may be added, none may go.
COLLECTED = {
    "cuda toolkits": (lambda f: f["cuda"]["toolkits"], 30),
    "cuda releases with drivers": (
        lambda f: [r for t in f["cuda"]["toolkits"].values() for r in t["driver_by_release"]],
        61,
    ),
    "capabilities in nvcc": (lambda f: [s for t in f["cuda"]["toolkits"].values() for s in t["sm"]], 400),
    "listed images": (lambda f: f["images"]["nvidia_cuda"]["listed"], 42),
    "deleted images": (lambda f: [v for d in f["images"]["nvidia_cuda"]["deleted"] for v in d["versions"]], 22),
    "gpus": (lambda f: [n for g in f["gpus"]["groups"] for n in g["names"]], 200),
    "first cuda for capability": (lambda f: f["cuda"]["first_for_capability"], 14),
    "last cuda for capability": (lambda f: f["cuda"]["last_for_capability"], 10),
    "cudnn pairs": (lambda f: f["cudnn"]["in_nvidia_images"]["pairs"], 37),
    "torch releases": (lambda f: f["torch"]["releases"], 51),
    "torch wheels with archs": (lambda f: [b for r in f["torch"]["releases"].values() for b in r.get("sm", {})], 90),
    "cpp_extension rows": (lambda f: f["torch_build"]["cpp_extension"]["gcc_below"], 17),
    "dgl wheels": (lambda f: f["dgl"]["pypi_cpu"]["releases"], 31),
    "dgl cuda packages": (lambda f: f["dgl"]["pypi_cuda"], 7),
    "dgl apis": (lambda f: f["apis"]["dgl"], 5),
    "tvm releases": (lambda f: f["tvm"]["releases"], 16),
    "llvm archives": (lambda f: f["llvm"]["archives"], 11),
    "apt.llvm.org": (lambda f: f["llvm"]["apt_llvm_org"], 8),
    "distros": (lambda f: f["distros"]["distros"], 11),
    "gcc to glibcxx": (lambda f: f["distros"]["glibcxx_by_gcc"], 15),
    "cutlass series": (lambda f: f["cutlass"]["releases"], 9),
    "last pip": (lambda f: f["python"]["last_pip"], 7),
    "flash-attn series": (lambda f: f["flash_attn"]["series"], 7),
    "sources": (lambda f: f["sources"], 50),
}


@pytest.mark.parametrize("what", COLLECTED)
def test_nothing_collected_is_lost(what: str) -> None:
    select, least = COLLECTED[what]
    assert len(select(_Raw())) >= least


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


TYPED = [*get_type_hints(Facts)]
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


@pytest.mark.parametrize("name", TYPED)
def test_a_file_follows_its_schema(name: str) -> None:
    facts = getattr(Facts(), name)
    assert facts and {*_untyped(facts)} <= FOR_READERS


def test_every_file_that_a_rule_reads_has_a_schema() -> None:
    assert {f for f in FILES if "/" not in f} - {*TYPED} == {"containers", "debian", "pypi"}


def test_packages_have_releases_and_follow_their_schema() -> None:
    facts = {name: bundled().package(name) for name in PACKAGES}
    assert [name for name, each in facts.items() if not each.versions] == []
    assert [name for name, each in facts.items() if {*_untyped(each)}] == []


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


def test_a_misspelt_fact_is_noticed() -> None:
    found = {"x": (Api.model_validate({"removed_in": "1.0", "last_in": "0.9", "removed_inn": "1.0"}),)}
    assert {*_untyped(found)} - FOR_READERS == {"removed_inn"}


def test_a_source_is_cited_by_its_text() -> None:
    assert bundled().cite("nv_cuda_gpus") == "developer.nvidia.com/cuda-gpus"
    assert bundled().cite("no such id") == "no such id"
