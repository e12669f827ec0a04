"""Apptainer's definition file, by the format that its manual documents."""

from __future__ import annotations

import io
import os
import re
import subprocess
from pathlib import Path

import pytest

from reprokit.bundle.tools import apptainer
from reprokit.bundle.tools.apptainer import Apptainer
from reprokit.errors import UsageError, WorkFailed
from tests.support.builds import root_file_system
from tests.support.names import unique
from tests.support.privileges import need_root

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


@pytest.fixture
def program(tmp_path, monkeypatch):
    """`program(script)` makes an Apptainer of a shell script."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def make(script: str) -> None:
        (folder / "apptainer").write_text(f"#!/bin/sh\n{script}")
        (folder / "apptainer").chmod(0o755)

    return make


@pytest.fixture
def definition(job, tmp_path) -> Path:
    path = tmp_path / "x.def"
    path.write_text(Apptainer().text(job()))
    return path


def test_without_apptainer_its_command_is_named(definition, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert "`apptainer build x.sif x.def`" in Apptainer().finish(definition, pytest.fail)


def test_the_sif_is_built_where_apptainer_is(definition, program):
    said: list[str] = []
    program('[ "$1" = build ] || exit 9; echo "INFO:    Starting build..." >&2; cp "$3" "$2"')
    sif = definition.with_suffix(".sif")
    assert Apptainer().finish(definition, said.append) == f"{sif} built" and sif.exists()
    assert said == ["apptainer: Starting build..."]
    with pytest.raises(UsageError, match="exists already"):
        Apptainer().finish(definition, said.append)


def test_an_apptainer_that_fails_or_hangs(definition, program, monkeypatch):
    program("printf '\\033[91mFATAL:   no such image\\033[0m\\n' >&2; exit 255")
    with pytest.raises(WorkFailed, match=r"could not build x.sif: FATAL:   no such image$"):
        Apptainer().finish(definition, lambda line: None)
    monkeypatch.setattr(apptainer, "_LIMIT_S", 0.1)
    program("exec sleep 9000")
    with pytest.raises(WorkFailed, match=r"did not build x\.sif in") as error:
        Apptainer().finish(definition, pytest.fail)
    assert error.value.hint == "without a limit: `apptainer build x.sif x.def`"


# The program's root has to be the root of its namespace: Apptainer starts nothing in a chroot.
_IN_SID = """\
[ "$1" != build ] || set -- build x.sif x.def
exec unshare --mount --pid --fork sh -euc '
    root=$1 folder=$2; shift 2
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    for each in dev sys; do mount --rbind "/$each" "$root/$each"; done
    mount -t tmpfs tmpfs "$root/tmp"; mount -t tmpfs tmpfs "$root/run"
    mount --bind "$folder" "$root/mnt"; touch "$root/run/docker.sock"
    mount --bind /var/run/docker.sock "$root/run/docker.sock"
    cd "$root"; pivot_root . media; cd /mnt
    exec apptainer "$@"' sh {root} {folder} "$@"
"""


@pytest.mark.engine
@pytest.mark.network
@pytest.mark.long
def test_a_real_apptainer_builds_and_runs_the_image(engine, job, tmp_path, program):
    need_root()
    root, folder = tmp_path / "sid", tmp_path / "sif"
    folder.mkdir()
    # The snapshot of a mirror may be older than its lists allow.
    command = ["mmdebstrap", "--variant=apt", "--include=apptainer", "--aptopt=APT::Install-Recommends false"]
    command += ["--aptopt=Acquire::Check-Valid-Until false", "sid", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (root / "etc" / "hosts").write_text("127.0.0.1 localhost\n")
    (root / "etc" / "localtime").write_bytes(b"")
    program(_IN_SID.format(root=root, folder=folder))
    name, said = unique("apptainer").lower(), []
    engine.import_image(io.BytesIO(root_file_system()), f"reprokit/{name}", "v", ["ENV PATH=/bin", "ENV FOO=bar"])
    try:
        path = folder / "x.def"
        path.write_text(
            Apptainer().text(job()).replace("reprokit/x:v", f"reprokit/{name}:v").replace("/workspace", "/")
        )
        assert Apptainer().finish(path, said.append) == f"{folder / 'x.sif'} built"
        assert "apptainer: Creating SIF file..." in said
        run = ["apptainer", "run", "--no-privs", "x.sif", "env"]
        assert "FOO=bar" in subprocess.run(run, capture_output=True, text=True, check=True).stdout
    finally:
        engine.remove_image(f"reprokit/{name}:v", force=True)
