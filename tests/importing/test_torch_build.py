"""Which build of torch a stated CUDA chooses."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from reprokit.compat.facts import bundled
from reprokit.importing.decision import Choice, Decision, PythonBase, Versions
from reprokit.importing.draft import draft
from reprokit.importing.model import Origin, Statement
from reprokit.importing.torch_build import stated_cuda, torch_build, without_index
from reprokit.recipe.load import load_text

DECISION = Decision("tool", date(2022, 3, 1), PythonBase("debian:11", "3.9"), Choice("debian:11"))


def stated(*values: str) -> tuple[Choice, ...]:
    return tuple(Choice(value, (Origin("environment.yml", line),)) for line, value in enumerate(values, 1))


@pytest.mark.parametrize(
    ("torch", "cuda", "pin", "index", "lost"),
    [
        ("1.9.0", ["==11.1.*"], "1.9.0+cu111", "cu111", []),
        ("1.9.0", ["==11.1.1"], "1.9.0+cu111", "cu111", []),
        ("1.9.0", ["==10.2.*"], "1.9.0", "", []),
        ("1.9.0", [">=10.1"], "1.9.0", "", []),  # PyPI's own fits
        ("1.9.0", [">=11"], "1.9.0+cu111", "cu111", []),
        ("1.9.0", ["==11.4.*", "==10.1.*"], "1.9.0+cu111", "cu111", ["CUDA ==11.4.*", "CUDA ==10.1.*"]),
        ("1.9.0", ["==11.3.*", "==11.1.*"], "1.9.0+cu111", "cu111", ["CUDA ==11.3.*"]),  # the first that has a build
        ("1.9.0", ["==13.0.*"], "1.9.0", "", ["CUDA ==13.0.*"]),
        ("1.9.0+cu111", ["==11.1.*", "==10.2.*"], "1.9.0+cu111", "", ["CUDA ==10.2.*"]),
        ("1.9.0+cpu", ["==11.1.*"], "1.9.0+cpu", "", ["CUDA ==11.1.*"]),
        ("99.0", ["==11.1.*"], "99.0", "", ["CUDA ==11.1.*"]),  # its builds are not known
        ("1.9.0", [], "1.9.0", "", []),
    ],
)
def test_the_stated_cuda_chooses_the_build(torch, cuda, pin, index, lost):
    found = torch_build(replace(DECISION, cuda=stated(*cuda)), Versions({"torch": torch}), bundled())
    assert found.version == pin and found.index.rpartition("/")[2] == index
    assert [one.value for one in found.choice.lost] == lost


def test_code_for_another_cuda_keeps_the_build_of_an_index_that_cannot_be_reached():
    decision = replace(DECISION, pins={"cuda": Choice("11.8")})
    build = torch_build(decision, Versions({"torch": "2.7.0"}), bundled())
    kept, question = without_index(build, "refused", decision, bundled())
    assert kept == build and build.version == "2.7.0+cu118"
    assert "PyPI's torch 2.7.0 is for CUDA 12.6: name a mirror in REPROKIT_WHEELS_MIRRORS" in question.text


def test_the_weightiest_file_is_asked_first():
    statements = [
        Statement("cuda", value, Origin(file, 1), format, scope)
        for value, file, format, scope in (
            ("==10.2.*", "README.md", "readme", "run"),
            ("==11.1.*", "environment.yml", "environment", "run"),
            ("==9.0.*", "docs/environment.yml", "environment", "other"),
            ("==11.3.*", "Dockerfile", "dockerfile", "run"),
        )
    ]
    assert [choice.value for choice in stated_cuda(statements)] == ["==11.1.*", "==11.3.*", "==10.2.*"]


@pytest.mark.parametrize(
    ("subject", "value", "cuda"),
    [
        ("package", "torch==1.9.0+cu111", ["==11.1.*"]),
        ("package", "torch==1.9.0+cpu", []),
        ("package", "other==1.9.0+cu111", []),
        ("index", "https://i.example/whl/cu92/", ["==9.2.*"]),
        ("index", "https://i.example/whl/torch_stable.html", []),
        ("index", "https://i.example/whl/cu11x", []),
    ],
)
def test_a_build_or_an_index_of_torch_states_a_cuda(subject, value, cuda):
    statement = Statement(subject, value, Origin("requirements.txt", 1), "requirements")
    assert [choice.value for choice in stated_cuda([statement])] == cuda


def test_the_recipe_has_the_build_its_index_and_what_lost():
    decision = replace(
        DECISION,
        requirements={"torchvision": Choice("torchvision")},
        cuda=stated("==11.1.*", "==10.2.*"),
    )
    pins = {"torch": "1.9.0", "torchvision": "0.10.0", "nvidia-nccl-cu10": "2.8"}
    text = draft(decision, Versions(pins), "", "", bundled())
    variant = load_text(text, "tool.yaml", "tool").variants["cpu"]
    assert variant.pins["torch"] == "1.9.0+cu111" and variant.wheels == ["torchvision==0.10.0+cu111"]
    assert variant.wheel_indexes == ["https://download.pytorch.org/whl/cu111"]
    assert {used.name: used.options for used in variant.blocks}["torch"] == {}
    assert "# environment.yml:1; built for CUDA 11.1, as stated\n" in text
    assert "# not CUDA ==10.2.* (environment.yml:2): torch 1.9.0 has builds for 10.2, 11.1" in text


@pytest.mark.parametrize(
    ("torch", "torchaudio", "pinned"),
    [("1.9.0", "0.9.0", "torchaudio==0.9.0"), ("1.10.0", "0.10.0", "torchaudio==0.10.0+cu111")],
)
def test_torchaudio_comes_from_the_build_of_torch_once_it_has_builds(torch, torchaudio, pinned):
    decision = replace(DECISION, requirements={"torchaudio": Choice("torchaudio")}, cuda=stated("==11.1.*"))
    text = draft(decision, Versions({"torch": torch, "torchaudio": torchaudio}), "", "", bundled())
    assert load_text(text, "tool.yaml", "tool").variants["cpu"].wheels == [pinned]


def test_a_cuda_that_nothing_takes_is_listed():
    text = draft(replace(DECISION, cuda=stated("==11.1.*")), Versions({"numpy": "1.22.2"}), "", "", bundled())
    why = "no code is compiled for CUDA here, and torch is not installed"
    assert f"# not used: CUDA ==11.1.* (environment.yml:1): {why}\n" in text
