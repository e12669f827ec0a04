"""Two images of bundles compared."""

from __future__ import annotations

from dataclasses import dataclass

from reprokit.bundle.layers import LayerRow, rows, settings
from reprokit.bundle.model import ImageMetadata
from reprokit.bundle.packages import differences, holder, packages
from reprokit.bundle.read import Bundle
from reprokit.oci.model import Image

Change = tuple[str, str, str]


@dataclass(frozen=True)
class Compared:
    """Layers of only one image, and changed values by name, before and after, empty if there is none.

    `size` are unpacked bytes. `unknown` counts layers that both bundles exclude, whose packages are unknown.
    """

    size: tuple[int, int]
    removed: list[LayerRow]
    added: list[LayerRow]
    pins: list[Change]
    settings: list[Change]
    packages: list[Change]
    unknown: int

    @property
    def same(self) -> bool:
        return not (self.removed or self.added or self.pins or self.settings)


def compare(one: Bundle, other: Bundle, left: Image | None, right: Image | None) -> Compared:
    """Compare two images; a missing image has no layers."""
    before, after = (rows(image) if image else [] for image in (left, right))
    ids = [{row.diff_id for row in each} for each in (before, after)]
    removed = [row for row in before if row.diff_id not in ids[1]]
    added = [row for row in after if row.diff_id not in ids[0]]
    changed, both = removed or added, (one, other)
    described = [_described(*each) for each in ((one, left), (other, right))]
    nowhere = {each.diff_id for image in (left, right) if image for each in image.layers if not holder(each, both)}
    return Compared(
        size=(described[0].size if described[0] else 0, described[1].size if described[1] else 0),
        removed=removed,
        added=added,
        pins=differences(*(each.pins if each else {} for each in described)),
        settings=differences(_settings(left), _settings(right)),
        packages=differences(*(packages(each, both) if each else {} for each in (left, right))) if changed else [],
        unknown=len(nowhere) if changed else 0,
    )


def _described(bundle: Bundle, image: Image | None) -> ImageMetadata | None:
    return next((each for each in bundle.metadata.images if image and each.name == image.name), None)


def _settings(image: Image | None) -> dict[str, str]:
    """ENV and labels one by one."""
    found = settings(image.config) if image else {}
    flat = {key: str(found[key]) for key in ("WorkingDir", "User", "Entrypoint", "Cmd") if found.get(key)}
    env = found.get("Env")
    flat |= dict(str(each).partition("=")[::2] for each in env) if isinstance(env, list) else {}
    labels = found.get("Labels")
    return flat | ({f"label {k}": str(v) for k, v in labels.items()} if isinstance(labels, dict) else {})
