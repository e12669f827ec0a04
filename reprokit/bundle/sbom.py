"""What an image was made of, as a CycloneDX SBOM: the packages, commits and files that its lock names.

Package URLs follow the purl specification's types (deb, pypi, conda, github, generic, oci).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING
from uuid import NAMESPACE_URL, uuid5

from reprokit import __version__
from reprokit.bundle.model import ImageMetadata, Part
from reprokit.errors import UsageError
from reprokit.oci.model import digest_of
from reprokit.supply.lock import file as lock_file
from reprokit.supply.lock.model import Base, VariantLock

if TYPE_CHECKING:
    from cyclonedx.model.component import Component, ComponentType
    from packageurl import PackageURL

_GITHUB = re.compile(r"https://github\.com/([^/]+)/([^/]+?)(?:\.git)?/?")


def sbom(recipe: str, variant: str, lock: VariantLock) -> bytes:
    """The SBOM of a variant as CycloneDX 1.6 JSON. The same lock gives the same bytes with the same libraries."""
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output import make_outputter
    from cyclonedx.schema import OutputFormat, SchemaVersion

    name = f"reprokit/{recipe}"
    root = Component(name=name, version=variant, type=ComponentType.CONTAINER, bom_ref=f"{name}:{variant}")
    tool = Component(name="reprokit", version=__version__, type=ComponentType.APPLICATION, bom_ref="reprokit")
    # The lock has no date of its own, and a document of today's would differ each time.
    metadata = BomMetaData(component=root, timestamp=datetime.fromtimestamp(0, timezone.utc))
    metadata.tools.components.add(tool)
    found = {str(component.bom_ref.value): component for component in _components(lock)}
    document = Bom(
        components=found.values(), metadata=metadata, serial_number=uuid5(NAMESPACE_URL, f"{name}:{lock.hash}")
    )
    document.register_dependency(root, found.values())
    return make_outputter(document, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=1).encode()


def of_image(image: ImageMetadata) -> bytes:
    """The SBOM of an image in a bundle, from its lock. Raises UsageError where the bundle has no lock of it."""
    lock = (
        lock_file.parse(image.lock_text, image.name, image.recipe).variants.get(image.variant)
        if image.lock_text
        else None
    )
    if lock is None:
        hint = f"`reprokit lock {image.recipe}`, then build and export again" if image.recipe else ""
        raise UsageError("the image has no lock, so its content is not known", image.name, hint)
    return sbom(image.recipe, image.variant, lock)


def part_of(image: ImageMetadata) -> tuple[Part, bytes] | None:
    """The SBOM as a file of the bundle, for other tools; None for an image without a lock."""
    if not image.lock_text:
        return None
    content = of_image(image)
    name = f"{image.recipe}--{image.variant}"
    path = f"sbom/{name}.cdx.json"
    return Part(kind="sbom", name=name, path=path, digest=digest_of(content), size=len(content)), content


def _components(lock: VariantLock) -> Iterator[Component]:
    from cyclonedx.model.component import ComponentType
    from packageurl import PackageURL

    library = ComponentType.LIBRARY
    yield from _base(lock.base)
    distribution = lock.base.bootstrap.distribution if lock.base.bootstrap else _distribution(lock.base.reference)
    packages = lock.base.bootstrap.packages if lock.base.bootstrap else ()
    for apt in (*packages, *lock.apt):
        purl = PackageURL("deb", distribution, apt.name, apt.version, {"arch": apt.architecture})
        yield _component(library, purl, apt.sha256)
    # A project can be a tool of a build and be installed, too; of equal ones the last counts.
    for wheel in sorted(lock.wheels, key=lambda wheel: not wheel.build_only):
        purl = PackageURL("pypi", None, wheel.name, wheel.version)
        yield _component(library, purl, wheel.sha256, wheel.build_only)
    for conda in lock.conda:
        kind = "conda" if conda.file.endswith(".conda") else "tar.bz2"
        place = {"build": conda.build, "channel": conda.channel, "subdir": conda.subdir, "type": kind}
        yield _component(library, PackageURL("conda", None, conda.name, conda.version, place), conda.sha256)
    for commit in lock.git:
        if match := _GITHUB.fullmatch(commit.url):
            yield _component(library, PackageURL("github", match[1], match[2], commit.commit))
        else:
            name = posixpath.basename(commit.url.rstrip("/")).removesuffix(".git") or "source"
            place = {"vcs_url": f"git+{commit.url}@{commit.commit}"}
            yield _component(library, PackageURL("generic", None, name, commit.commit, place))
    for file in lock.files:
        place = {"download_url": file.urls[0], "checksum": f"sha256:{file.sha256}"}
        yield _component(ComponentType.FILE, PackageURL("generic", None, file.name, None, place), file.sha256)


def _base(base: Base) -> Iterator[Component]:
    from cyclonedx.model.component import ComponentType
    from packageurl import PackageURL

    if base.digest:
        plain = base.reference.partition("@")[0]
        name = posixpath.basename(plain).partition(":")[0]
        place = {"repository_url": plain.rpartition(":")[0] or plain}
        yield _component(ComponentType.CONTAINER, PackageURL("oci", None, name, base.digest, place))


def _distribution(reference: str) -> str:
    """The namespace of a base's Debian packages."""
    return "ubuntu" if "ubuntu" in reference else "debian"


def _component(kind: ComponentType, purl: PackageURL, sha256: str = "", build_only: bool = False) -> Component:
    """A component; one that is `build_only` is excluded from the image, in the words of CycloneDX."""
    from cyclonedx.model import HashAlgorithm, HashType
    from cyclonedx.model.component import Component, ComponentScope

    return Component(
        name=purl.name,
        version=purl.version,
        type=kind,
        purl=purl,
        bom_ref=str(purl),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256)] if sha256 else [],
        scope=ComponentScope.EXCLUDED if build_only else None,
    )
