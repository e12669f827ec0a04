"""The SBOM of a lock, judged by the validator of CycloneDX."""

from __future__ import annotations

import json
import tarfile

import pytest
from cyclonedx.schema import SchemaVersion
from typer.testing import CliRunner

from reprokit.bundle.model import ImageMetadata, part_path
from reprokit.bundle.sbom import of_image, part_of, sbom
from reprokit.cli import app
from reprokit.errors import UsageError
from reprokit.oci.layout import header
from reprokit.supply.lock import file as lock_file
from reprokit.supply.lock.model import KINDS, AptPackage, CondaPackage, Distribution, GitCommit
from tests.support.made import Made, tar
from tests.support.paths import ROOT
from tests.support.stores import a_lock, plain

SHA = "a" * 64
COMMIT = "b" * 40


def call(*arguments: str):
    return CliRunner().invoke(app, [*arguments])


def flaw(content: bytes):
    """What CycloneDX finds wrong in the SBOM, or None."""
    # It takes seconds to import, which each worker that collects would pay.
    from cyclonedx.validation.json import JsonStrictValidator

    return JsonStrictValidator(SchemaVersion.V1_6).validate_str(content.decode())


def complete():
    lock = a_lock("x", [plain(b"data", "d.bin")])
    package = {"name": "curl", "version": "1:7.88.1-10+deb12u5", "architecture": "amd64", "archive": "debian"}
    conda = {"channel": "conda-forge", "subdir": "linux-64", "name": "zlib", "version": "1.3", "build": "h1_0"}
    urls = ("https://github.com/apache/tvm.git", "https://git.example.org/a/b")
    update = {
        "apt": (AptPackage(**package, path="pool/main/c/curl/curl.deb", sha256=SHA, size=1),),
        "wheels": (Distribution(name="numpy", version="1.26.4", file="numpy-1.26.4.whl", sha256=SHA, size=1),),
        "conda": (CondaPackage(**conda, file="zlib-1.3-h1_0.conda", sha256=SHA, size=1),),
        "git": tuple(GitCommit(url=url, commit=COMMIT, tree=COMMIT) for url in urls),
    }
    return lock.model_copy(update={"variants": {"cpu": lock.variants["cpu"].model_copy(update=update)}})


def image(lock) -> ImageMetadata:
    described = {"name": "reprokit/x:cpu", "id": "sha256:" + SHA, "size": 1, "recipe": "x", "variant": "cpu"}
    return ImageMetadata(**described, lock_text=lock_file.text_of(lock))


@pytest.mark.slow
def test_it_names_packages_commits_and_files_and_is_valid():
    lock = complete()
    content = sbom("x", "cpu", lock.variants["cpu"])
    assert flaw(content) is None and sbom("x", "cpu", complete().variants["cpu"]) == content
    document = json.loads(content)
    assert document["metadata"]["component"]["name"] == "reprokit/x"
    assert {component["purl"] for component in document["components"]} == {
        "pkg:deb/debian/curl@1:7.88.1-10%2Bdeb12u5?arch=amd64",
        "pkg:pypi/numpy@1.26.4",
        "pkg:conda/zlib@1.3?build=h1_0&channel=conda-forge&subdir=linux-64&type=conda",
        f"pkg:github/apache/tvm@{COMMIT}",
        f"pkg:generic/b@{COMMIT}?vcs_url=git%2Bhttps://git.example.org/a/b%40{COMMIT}",
        f"pkg:generic/d.bin?checksum=sha256:{plain(b'data').sha256}&download_url=https://files.test/d.bin",
    }
    (component,) = [each for each in document["components"] if each["name"] == "numpy"]
    assert component["hashes"] == [{"alg": "SHA-256", "content": SHA}]
    (root,) = [each for each in document["dependencies"] if each["ref"] == "reprokit/x:cpu"]
    assert len(root["dependsOn"]) == 6
    assert flaw(content.replace(b'"library"', b'"librarian"', 1)) is not None  # control
    # Without the section of a kind the SBOM is another.
    full = lock.variants["cpu"]
    for name in KINDS:
        assert getattr(full, name), f"complete() has no {name}"
        less = json.loads(sbom("x", "cpu", full.model_copy(update={name: ()})))
        assert len(document["components"]) - len(less["components"]) == len(getattr(full, name))
    # What only builds need is excluded from the image.
    (numpy,) = full.wheels
    tool = numpy.model_copy(update={"name": "setuptools", "version": "59.0", "build_only": True})
    both = numpy.model_copy(update={"build_only": True})
    for wheels in ((numpy, tool, both), (both, tool, numpy)):
        content = sbom("x", "cpu", full.model_copy(update={"wheels": wheels}))
        assert flaw(content) is None
        scopes = {each["name"]: each.get("scope") for each in json.loads(content)["components"]}
        assert (scopes["setuptools"], scopes["numpy"], scopes["curl"]) == ("excluded", None, None)


@pytest.mark.slow
def test_a_bundled_recipe():
    lock = lock_file.read(ROOT / "recipes" / "fused-attention.lock.yaml")
    for name, variant in lock.variants.items():
        content = sbom("fused-attention", name, variant)
        assert flaw(content) is None
        packages = variant.base.bootstrap.packages if variant.base.bootstrap else ()
        assert len(json.loads(content)["components"]) >= len({*packages, *variant.apt}) + len(variant.wheels)


def test_a_file_of_the_bundle_and_inspect(tmp_path):
    lock = complete()
    made = Made.of({"reprokit/x:cpu": [tar({"a": b"a"})]}, recipe="x", variant="cpu", lock_text=lock_file.text_of(lock))
    part, content = part_of(image(lock))
    made.metadata["parts"] = [part.model_dump()]
    path = tmp_path / "x.rkit"
    path.write_bytes(tar({**made.files, part.path: content}))
    with tarfile.open(path) as bundle:
        assert bundle.extractfile("sbom/x--cpu.cdx.json").read() == content
    shown = call("show", str(path), "--sbom")
    assert shown.exception is None, shown.exception
    assert json.loads(shown.stdout) == json.loads(content)
    assert "sbom x--cpu" in call("show", str(path)).stdout
    # A bundle's own file says what its maker likes: inspect reads the lock.
    forged = content.replace(b"numpy", b"nvmpy")
    made.metadata["parts"] = [{**part.model_dump(), "digest": "sha256:" + "c" * 64}]
    path.write_bytes(tar({**made.files, part.path: forged}))
    assert json.loads(call("show", str(path), "--sbom").stdout) == json.loads(content)
    # Under another name it is refused.
    made.metadata["parts"] = [{**part.model_dump(), "path": "sbom/other.cdx.json"}]
    path.write_bytes(tar({**made.files, "sbom/other.cdx.json": content}))
    assert "cannot be the sbom" in str(call("show", str(path)).exception)


def test_long_names_fit_into_the_header_of_an_entry(monkeypatch):
    image = ImageMetadata.model_construct(recipe="r" * 60, variant="v" * 60, lock_text="x")
    monkeypatch.setattr("reprokit.bundle.sbom.of_image", lambda image: b"{}")
    part, _ = part_of(image)
    assert part.path == part_path("sbom", part.name) and len(header(part.path, 2)) == 512
    assert part.path != part_path("sbom", part.name + "x")


def test_without_a_lock_the_content_is_not_known():
    bare = image(complete()).model_copy(update={"lock_text": ""})
    assert part_of(bare) is None
    with pytest.raises(UsageError, match="has no lock") as error:
        of_image(bare)
    assert error.value.hint.startswith("`reprokit lock x`")
