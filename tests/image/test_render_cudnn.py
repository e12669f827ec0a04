"""The shell of the block cudnn, run as it is rendered, in a folder that stands for the root."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reprokit.image.render import render
from tests.support.rendering import target

NEW = "#define CUDNN_MAJOR 8\n#define CUDNN_MINOR 5\n#define CUDNN_PATCHLEVEL 0\n"
OLD = NEW.replace("MAJOR 8", "MAJOR 7")
BARE = "#include <cudnn_version.h>\n"


@pytest.mark.parametrize(
    ("pin", "headers", "error"),
    [
        ("8.5.0", {"usr/include/cudnn.h": BARE, "usr/include/cudnn_version.h": NEW}, ""),
        ("7.5.0", {"usr/local/cuda/include/cudnn.h": OLD}, ""),
        ("8.9.0", {"usr/include/cudnn.h": BARE, "usr/include/cudnn_version.h": NEW}, "cudnn 8.9.0, found 8.5.0"),
        ("8.5.0", {"usr/include/cudnn.h": BARE}, "cudnn 8.5.0, found nothing"),
        ("8.5.0", {}, "header of cudnn present, found nothing"),
    ],
)
def test_the_version_is_read_from_the_header(tmp_path: Path, pin: str, headers: dict[str, str], error: str):
    for name, text in headers.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    text = render(
        target(tmp_path, pins={"cuda": "11.8", "gcc": "11", "cudnn": pin}, blocks=["cuda", "cudnn"])
    ).dockerfile
    script = text[text.index('    header="$(for') :].partition("\n\n")[0].partition("\nWORKDIR")[0]
    script = script.replace("/usr/", f"{tmp_path}/usr/")
    expect = (
        text[text.index("expect() {") :].partition("\n")[0].removesuffix(" \\").replace("block cuda", "block cudnn")
    )
    shell = f"set -eu; {expect} ldconfig() {{ echo ' libcudnn.so (libc6)'; }}; {script.lstrip()}"
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True)
    assert (error in done.stderr and done.returncode == 1) if error else done.returncode == 0, done.stderr
