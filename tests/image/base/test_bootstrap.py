"""What is said of a base that was made of packages."""

from __future__ import annotations

from reprokit.image.base.bootstrap import name_of, packages_hash
from reprokit.image.base.release import Release


def test_packages_are_hashed_whatever_their_order():
    assert packages_hash({("a", "1.0"), ("b", "2:3")}) == packages_hash({("b", "2:3"), ("a", "1.0")})
    assert packages_hash({("a", "1.0")}) != packages_hash({("a", "1.1")})


def test_no_recipe_can_have_the_name_of_a_base():
    assert name_of(Release("debian", "12", "bookworm")) == "reprokit/own/base:debian-12"
