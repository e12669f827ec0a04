"""Apptainer's definition file, by the format that its manual documents."""

from __future__ import annotations

import os
import re

import pytest

from reprokit.bundle.tools.apptainer import Apptainer
from reprokit.errors import UsageError, WorkFailed

# apptainer.org/docs/user, "Definition Files": sections, and keywords of the header.
SECTIONS = {"help", "setup", "files", "labels", "environment", "post", "runscript", "startscript", "test"}


def parsed(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """The header's keywords, and the sections."""
    head, *rest = re.split(r"^\s*%", text, flags=re.MULTILINE)
    sections = {section.split("\n", 1)[0].strip(): section.split("\n", 1)[1] for section in rest}
    return dict(re.findall(r"^(\w+): (.+)$", head, re.MULTILINE)), sections


def test_it_has_the_documented_form(job):
    header, sections = parsed(Apptainer().text(job(gpu="optional")))
    assert header == {"Bootstrap": "docker-daemon", "From": "reprokit/x:v"}
    assert sections.keys() <= SECTIONS and 'exec "$@"' in sections["runscript"]
    workspace = job().workspace
    binds = f"--nv --bind {workspace}:/workspace,{workspace}/results/data:/data x-v.sif"
    assert binds in sections["help"] and "--nv" not in Apptainer().text(job())


@pytest.mark.parametrize("title", ["%post", "{{ secret }}", "{{{ secret }}}", "Bootstrap: localimage"])
def test_a_title_adds_no_section_and_no_argument(job, title):
    header, sections = parsed(Apptainer().text(job(title=title)))
    assert header["Bootstrap"] == "docker-daemon" and sections.keys() == {"help", "labels", "runscript"}
    assert not re.search(r"\{\{\s*\w+\s*\}\}", Apptainer().text(job(title=title)))


def test_a_path_that_would_be_two_mounts_is_refused(job):
    with pytest.raises(UsageError, match="cannot use a path with ':'"):
        Apptainer().text(job(folder="a:b"))


def test_the_sif_is_built_where_apptainer_is(job, tmp_path, monkeypatch):
    path = tmp_path / "x.def"
    path.write_text(Apptainer().text(job()))
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert "`apptainer build x.sif x.def`" in Apptainer().finish(path)
    monkeypatch.undo()
    for code, line in ((0, "cp"), (1, "echo 'FATAL: no such image' >&2; false")):
        fake = tmp_path / "bin" / "apptainer"
        fake.parent.mkdir(exist_ok=True)
        fake.write_text(f'#!/bin/sh\n[ "$1" = build ] || exit 9\n{line} "$3" "$2"\n')
        fake.chmod(0o755)
        monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
        if code:
            with pytest.raises(WorkFailed, match="no such image"):
                Apptainer().finish(path)
        else:
            assert Apptainer().finish(path) == f"{tmp_path}/x.sif built" and (tmp_path / "x.sif").exists()
