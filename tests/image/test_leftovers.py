"""What a build leaves, and which images are leftovers: decided by the IDs that reprokit made."""

from __future__ import annotations

import io
import json
import time

import pytest

from reprokit.errors import WorkFailed
from reprokit.image import made
from reprokit.image.entries import EntryList
from reprokit.image.leftovers import leftovers, remove
from reprokit.image.made import MadeEntry, names_of
from reprokit.recipe.find import Target
from tests.support.images import tar_of
from tests.support.names import unique

pytestmark = pytest.mark.engine

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


def two_stages(builds, word: str) -> str:
    """A Dockerfile whose first stage is no other test's: the engine caches the stages of all."""
    return TWO_STAGES % f"{word}-{builds.target.recipe.name}"


def found(engine) -> dict[str, str]:
    return {image.id: image.why for image in leftovers(engine)}


def stranger(engine, base: str, labels: str) -> str:
    """An untagged image of somebody else, which copies our labels."""
    context = tar_of({"Dockerfile": f"FROM {base}\nLABEL {labels}\n".encode()})
    events = list(engine.build(io.BytesIO(context), rm=True, nocache=True))
    return next(event["aux"]["ID"] for event in events if "aux" in event)


def test_a_build_leaves_no_untagged_image_but_its_cache(saved, engine):
    first = saved("# block tool\nRUN echo one >/made\n")
    second = saved("# block tool\nRUN echo two >/made\n")
    assert engine.image(first.image_id) is None and engine.image(second.image_id)
    ours = made.entries(engine)
    untagged = [image["Id"] for image in engine.images([]) if image["Id"] in ours and not names_of(image)]
    assert untagged == []


def test_steps_of_earlier_builds_are_leftovers_and_the_cache_is_none(saved, engine):
    saved(two_stages(saved, "one"))
    (old,) = [i for i in made.entries(engine) if not names_of(engine.image(i)) and _makes(engine, i, "one")]
    assert found(engine) == {}, "the stage of the present image is its cache"
    saved(two_stages(saved, "two"))
    assert found(engine) == {old: f"left by an earlier build of {saved.target.label}"}
    for image in leftovers(engine):
        assert remove(engine, image)
    assert engine.image(old) is None
    saved(two_stages(saved, "two") + "ENV A=1\n")
    assert [event for event in saved.events if type(event).__name__ == "Cached"], "the cache of the last build stays"


def _makes(engine, image: str, word: str) -> bool:
    return f"echo {word}-" in engine.history(image)[0]["CreatedBy"]


def test_a_failed_builds_steps_stay_for_its_next_run_and_the_images_cache_too(saved, engine):
    saved(two_stages(saved, "one"))
    with pytest.raises(WorkFailed):
        saved(two_stages(saved, "other") + "RUN exit 3\n", keep_failed=True)
    kept = f"reprokit/{saved.target.label}--failed"
    assert list(found(engine).values()) == ["the state before a failed step (--keep-failed)"]
    (image,) = leftovers(engine)
    assert image.names == (kept,) and remove(engine, image) and engine.image(kept) is None
    assert found(engine) == {}


def test_the_image_of_a_recipe_that_is_gone(saved, engine):
    result = saved("# block tool\nRUN echo gone >/made\n")
    assert found(engine) == {}
    saved.target.path.write_text(saved.target.path.read_text().replace("{v: {", "{w: {"))
    assert found(engine)[result.image_id] == f"no recipe has {saved.target.label}"
    # a name of the user's, or a container, keeps it
    mine = unique("mine")
    engine.tag(result.image_id, mine, "1")
    assert found(engine) == {}
    engine.remove_image(f"{mine}:1")
    container = engine.create_container(unique("keeps"), {"Image": result.image_id, "Cmd": ["true"]})
    assert found(engine) == {}
    engine.remove(container)
    # and one that came after the list was shown
    (image, *_) = leftovers(engine)
    container = engine.create_container(unique("keeps"), {"Image": result.image_id, "Cmd": ["true"]})
    assert not remove(engine, image) and engine.image(result.image_id)
    engine.remove(container)
    engine.tag(result.image_id, mine, "1")
    assert not remove(engine, image) and engine.image(f"{mine}:1")
    engine.remove_image(f"{mine}:1")
    assert remove(engine, image)


def test_a_strangers_image_with_our_labels_is_none(saved, engine, base):
    result = saved("# block tool\nRUN echo mine >/made\n")
    labels = engine.image(result.image_id)["Config"]["Labels"]
    copied = " ".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
    forged = stranger(engine, base, copied)
    try:
        assert forged not in found(engine) and forged not in made.entries(engine)
        # Control: as one of ours it is a leftover.
        made.record(engine, forged, "step", saved.target.label)
        assert forged in found(engine)
    finally:
        engine.remove_image(forged)


def test_a_step_cannot_name_another_image_as_its_own(saved, engine, base):
    forged = stranger(engine, base, "a=b")
    time.sleep(1.1)  # the engine's list has whole seconds
    try:
        saved(f"# block tool\nRUN echo ' ---> {forged[7:19]}'\n")
        assert forged not in made.entries(engine)
        # Control: the builder's own lines look the same.
        assert len([entry for entry in made.entries(engine).values() if entry.role == "step"]) >= 2
    finally:
        engine.remove_image(forged)


def test_a_damaged_list_names_no_image(engine, home):
    entries = EntryList("x.json", MadeEntry, "x")
    with entries.changing(engine):
        pass
    for text in (b"{", b"[1]", b'[{"id": []}]', b"3", b'[{"id": "a", "more": 1}]'):
        (home / "state" / "trust" / "x.json").write_bytes(text)
        assert entries.read() == {}
