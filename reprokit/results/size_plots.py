"""The sizes of images as a picture: one bar an image, one colour a block."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reprokit.image.sizes import SizedImage
from reprokit.results.plots import COLOURS, plotting, save
from reprokit.untrusted.text import escaped

_GB = 1e9


def draw_sizes(images: Sequence[SizedImage], file: Path) -> None:
    """Draw bars of blocks in GB into `file`, by its suffix. What another image has too is hatched.

    Raises UsageError if matplotlib is missing, EngineError if the file cannot be written.
    """
    with plotting():
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch

        blocks = list(dict.fromkeys(block for image in images for block in image.blocks))
        colours = {block: COLOURS[number % len(COLOURS)] for number, block in enumerate(blocks)}
        figure = Figure(figsize=(9, 1.6 + 0.5 * len(images)), layout="constrained")
        axes = figure.subplots()
        for place, image in enumerate(images):
            common = max((image.shared(other) for other in images if other is not image), key=len, default=())
            left = 0.0
            for number, (block, count) in enumerate(image.steps):
                hatch = "///" if number < len(common) else ""
                axes.barh(place, count / _GB, left=left, color=colours[block], hatch=hatch, edgecolor="white")
                left += count / _GB
        axes.set_yticks(range(len(images)), [escaped(image.name) for image in images])
        axes.invert_yaxis()
        axes.set_xlabel("GB")
        axes.grid(True, axis="x")
        marks = [Patch(facecolor=colour, label=escaped(block)) for block, colour in colours.items()]
        marks.append(Patch(facecolor="white", edgecolor="#6b6b6b", hatch="///", label="in another image too"))
        axes.legend(handles=marks, frameon=False, fontsize=8, ncols=1, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        save(figure, file)
