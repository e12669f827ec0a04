"""What a build leaves, and which images are leftovers: decided by the IDs that reprokit made."""

from __future__ import annotations

import errno
import json
import os
from types import SimpleNamespace

import pytest

from reprokit.engine import EngineInfo
from reprokit.errors import EngineError, WorkFailed
from reprokit.image import made
from reprokit.image.entries import EntryList
from reprokit.image.events import BuildStep
from reprokit.image.leftovers import leftovers, remove
from reprokit.image.made import MadeEntry
from reprokit.recipe.find import Target
from tests.support.images import built
from tests.support.names import unique

NO_ENGINE = SimpleNamespace(images=lambda *_, **__: [], info=EngineInfo, url="here")
TWO_STAGES = """\
# block tool
FROM ${BASE} AS tool
RUN echo %s >/made
FROM ${BASE}
COPY --from=tool /made /made
"""


@pytest.fixture
def saved(builds, tmp_path):
    """The builds' recipe as a file that exists."""
    file = tmp_path / "recipes" / builds.target.path.name
    file.parent.mkdir()
    file.write_text(
        f"name: {builds.target.recipe.name}\npaper: {{title: T, venue: V, year: 2020, licence: MIT}}\n"
        "variants: {v: {base: 'debian:12'}}\n"
    )
    builds.target = Target(builds.target.recipe, "v", file)
    return builds


def reasons(engine) -> dict[str, str]:
    return {image.id: image.why for image in leftovers(engine)}


def stranger(engine, base: str, labels: str) -> str:
    """An untagged image of somebody else with these labels."""
    return built(engine, f"FROM {base}\nLABEL {labels}\n")


def test_replaced_images_go_earlier_steps_are_leftovers_and_the_cache_is_none(saved, engine):
    first = saved(TWO_STAGES % "one")
    old = {one for one, entry in made.entries(engine).items() if entry.role == "step"}
    assert len(old) == 2 and reasons(engine) == {}, "the steps of the present image are its cache"
    second = saved(TWO_STAGES % "two")
    assert engine.image(first.image_id) is None and engine.image(second.image_id)
    assert reasons(engine) == dict.fromkeys(old, f"left by an earlier build of {saved.target.label}")
    for image in leftovers(engine):
        assert remove(engine, image)
    assert not [one for one in old if engine.image(one)]

    # The steps of a failed build stay for its next run, and the cache of the image, too.
    with pytest.raises(WorkFailed):
        saved(TWO_STAGES % "other" + "RUN exit 3\n", keep_failed=True)
    kept = f"reprokit/{saved.target.label}--failed"
    (image,) = leftovers(engine)
    assert (image.names, image.why) == ((kept,), "what a failed step left (--keep-failed)")
    assert remove(engine, image) and engine.image(kept) is None
    assert reasons(engine) == {}
    saved(TWO_STAGES % "two" + "ENV A=1\n")
    assert [step for step in saved.seen(BuildStep) if step.cached]


def test_an_image_goes_with_its_recipe_and_no_strangers_image_does(saved, engine, base):
    result = saved("# block tool\nRUN echo one\n")
    labels = engine.image(result.image_id).labels
    copy = stranger(engine, base, " ".join(f"{name}={json.dumps(value)}" for name, value in labels.items()))
    mine = unique("mine")

    def used_by_a_container() -> str:
        return engine.create_container(unique("keeps"), {"Image": result.image_id, "Cmd": ["true"]})

    try:
        assert copy not in {*made.entries(engine), *reasons(engine)}
        # Control: recorded as one of ours, the copy is a leftover.
        made.record(engine, copy, "step", saved.target.label)
        assert reasons(engine).keys() == {copy}
        engine.remove_image(copy)

        saved.target.path.write_text(saved.target.path.read_text().replace("{v: {", "{w: {"))
        assert reasons(engine)[result.image_id] == f"no recipe has {saved.target.label}"
        # A name of the user's, or a container, keeps it.
        engine.tag(result.image_id, mine, "1")
        assert result.image_id not in reasons(engine)
        engine.remove_image(f"{mine}:1")
        container = used_by_a_container()
        assert result.image_id not in reasons(engine)
        engine.remove(container)
        # So does one that came after the list was shown.
        (image,) = (each for each in leftovers(engine) if each.id == result.image_id)
        container = used_by_a_container()
        assert not remove(engine, image) and engine.image(result.image_id)
        engine.remove(container)
        engine.tag(result.image_id, mine, "1")
        assert not remove(engine, image) and engine.image(f"{mine}:1")
        engine.remove_image(f"{mine}:1")
        assert remove(engine, image)
    finally:
        if engine.image(copy):
            engine.remove_image(copy)


def test_a_damaged_list_names_no_image(home):
    entries = EntryList("x.json", MadeEntry, "x")
    with entries.changing(NO_ENGINE):
        pass
    for text in (b"{", b"[1]", b'[{"id": []}]', b"3", b'[{"id": "a", "more": 1}]'):
        (home / "state" / "trust" / "x.json").write_bytes(text)
        assert entries.read() == {}


def test_a_list_that_cannot_be_written_names_the_disk(home, monkeypatch):
    entries = EntryList("made.json", MadeEntry, "images that reprokit made")

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EngineError) as caught, entries.changing(NO_ENGINE):
        pass
    assert caught.value.message == "the list of images that reprokit made cannot be written: No space left on device"
    assert caught.value.hint == "free space there"
    assert caught.value.where.endswith("made.json") and entries.read() == {}
