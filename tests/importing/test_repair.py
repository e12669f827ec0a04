"""The repair loop over recorded failures: what it changes, and when it stops."""

from __future__ import annotations

import pytest

from reprokit.importing.repair import ROUNDS, Failure
from tests.support.repairs import CURL, H5PY, World, failure


def test_each_round_changes_what_its_failure_names_with_the_cause_as_a_comment():
    world = World([failure(CURL)], [failure(H5PY, "import")], [])
    first, second = world.run()
    assert first.changes[0] == "apt: libcurl4-openssl-dev"
    assert second.changes == ("wheels: h5py==1.0",) and world.kept == 2
    assert world.variant.apt == ["libcurl4-openssl-dev"] and "h5py==1.0" in world.variant.wheels
    assert [block.name for block in world.variant.blocks] == ["apt", "python", "wheels"]
    assert "# a comment" in world.written[-1] and "# setup.py:3" in world.written[-1]
    assert "# repaired: the header curl/curl.h is not on the include path" in world.written[-1]


def test_a_build_program_that_cmake_misses_is_added():
    log = 'CMake Error: CMake was unable to find a build program corresponding to "Unix Makefiles".'
    (only,) = World([failure(log)], []).run()
    assert only.changes == ("apt: make", "apt: ninja-build")


def test_a_success_changes_nothing():
    assert World([]).run() == []


@pytest.mark.slow
def test_a_failure_without_a_known_change_ends_the_loop():
    world = World([failure("Segmentation fault")])
    (only,) = world.run()
    assert only.changes == () and world.written == []


def test_what_the_recipe_has_already_is_not_added_again():
    """A build that reports the same missing package for ever."""
    world = World([failure(CURL)])
    first, second = world.run()
    assert first.changes and second.changes == ()
    assert second.refused == ("add libcurl4-openssl-dev: the recipe has it already",)


def test_the_next_failure_is_tried_where_the_first_has_no_change():
    world = World([failure("ModuleNotFoundError: No module named 'torch'", "import"), failure(CURL)], [])
    (only,) = world.run()
    assert only.refused == ("torch: no versions fit",) and only.changes[0] == "apt: libcurl4-openssl-dev"


def test_the_rounds_are_bounded_for_failures_without_end():
    headers = ("zlib.h", "png.h", "gmp.h", "yaml.h", "numa.h", "mpfr.h", "mpc.h", "expat.h", "uuid/uuid.h", "hdf5.h")
    world = World(*([failure(f"a.c:1:10: fatal error: {h}: No such file or directory")] for h in headers))
    rounds = world.run()
    assert len(rounds) == ROUNDS and not rounds[-1].changes and len(world.variant.apt) == ROUNDS - 1


def test_a_state_that_failed_before_is_not_tried_again():
    jobs = "reprokit: out of memory during the build: the kernel killed cc1plus; MAX_JOBS={} fits"
    world = World([failure(jobs.format(4))], [failure(jobs.format(4))], [failure(jobs.format(4))])
    rounds = world.run()
    assert [each.changes for each in rounds] == [
        ("build_args/MAX_JOBS: 4",), ("build_args/MAX_JOBS: 2",), ("build_args/MAX_JOBS: 1",), ()
    ]  # fmt: skip


def test_what_was_learnt_is_kept_where_a_later_round_is_interrupted():
    world = World([failure(CURL)], [])
    calls = iter([world.answers[0]])

    def interrupted() -> list[Failure]:
        if (answer := next(calls, None)) is None:
            raise KeyboardInterrupt
        return answer

    world.attempt = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        world.run()
    assert world.kept == 1 and world.variant.apt == ["libcurl4-openssl-dev"]
