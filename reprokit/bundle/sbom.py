"""The CycloneDX SBOM of an image: the packages, commits and files that its lock names.

Package URLs follow the purl specification's types (deb, pypi, conda, github, generic, oci).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING
from uuid import NAMESPACE_URL, uuid5

from reprokit import __version__
from reprokit.bundle.model import ImageMetadata, Part, part_path
from reprokit.errors import UsageError
from reprokit.oci.model import digest_of
from reprokit.supply.kinds import all_kinds
from reprokit.supply.kinds.kind import SbomEntry
from reprokit.supply.lock import file as lock_file
from reprokit.supply.lock.model import VariantLock

if TYPE_CHECKING:
    from cyclonedx.model.component import Component


def sbom(recipe: str, variant: str, lock: VariantLock) -> bytes:
    """The SBOM of a variant as CycloneDX 1.6 JSON. The same lock gives the same bytes with the same libraries."""
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output import make_outputter
    from cyclonedx.schema import OutputFormat, SchemaVersion

    name = f"reprokit/{recipe}"
    root = Component(name=name, version=variant, type=ComponentType.CONTAINER, bom_ref=f"{name}:{variant}")
    tool = Component(name="reprokit", version=__version__, type=ComponentType.APPLICATION, bom_ref="reprokit")
    # A fixed date keeps the SBOM reproducible; the lock has no date.
    metadata = BomMetaData(component=root, timestamp=datetime.fromtimestamp(0, timezone.utc))
    metadata.tools.components.add(tool)
    components = {component.bom_ref.value: component for component in map(_component, _entries(lock))}
    document = Bom(
        components=components.values(), metadata=metadata, serial_number=uuid5(NAMESPACE_URL, f"{name}:{lock.hash}")
    )
    document.register_dependency(root, components.values())
    return make_outputter(document, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=1).encode()


def of_image(image: ImageMetadata) -> bytes:
    """The SBOM of an image in a bundle, from its lock. Raises UsageError if the bundle has no lock of it."""
    locks = lock_file.parse(image.lock_text, image.name, image.recipe).variants if image.lock_text else {}
    if (lock := locks.get(image.variant)) is None:
        hint = f"`reprokit lock {image.recipe}`, then build and export again" if image.recipe else ""
        raise UsageError("the image has no lock, so its content is not known", image.name, hint)
    return sbom(image.recipe, image.variant, lock)


def part_of(image: ImageMetadata) -> tuple[Part, bytes] | None:
    """The SBOM as a file of the bundle, for other tools; None for an image without a lock."""
    if not image.lock_text:
        return None
    content = of_image(image)
    name = f"{image.recipe}--{image.variant}"
    path = part_path("sbom", name)
    return Part(kind="sbom", name=name, path=path, digest=digest_of(content), size=len(content)), content


def _entries(lock: VariantLock) -> Iterator[SbomEntry]:
    if lock.base.digest:
        plain = lock.base.reference.partition("@")[0]
        name = posixpath.basename(plain).partition(":")[0]
        qualifiers = {"repository_url": plain.rpartition(":")[0] or plain}
        yield SbomEntry("oci", None, name, lock.base.digest, qualifiers, component="container")
    for kind in all_kinds():
        yield from kind.sbom_entries(lock)


def _component(entry: SbomEntry) -> Component:
    """The entry as a CycloneDX component; build-only entries have the scope "excluded"."""
    from cyclonedx.model import HashAlgorithm, HashType
    from cyclonedx.model.component import Component, ComponentScope, ComponentType
    from packageurl import PackageURL

    purl = PackageURL(entry.type, entry.namespace, entry.name, entry.version, dict(entry.qualifiers))
    return Component(
        name=purl.name,
        version=purl.version,
        type=ComponentType(entry.component),
        purl=purl,
        bom_ref=str(purl),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=entry.sha256)] if entry.sha256 else [],
        scope=ComponentScope.EXCLUDED if entry.build_only else None,
    )
