"""The JSON Schema says what the models say, and the recipes that we ship fulfil both."""

from __future__ import annotations

import pytest
import yaml

from reprokit.recipe.find import recipe_files
from reprokit.recipe.load import load_file, load_text
from reprokit.recipe.model import Claim, ClaimBaseline, RecipePart
from reprokit.recipe.schema import schema
from reprokit.recipe.start import starting_recipe


@pytest.mark.slow
def test_the_schema_and_the_models_accept_and_refuse_the_same():
    import jsonschema  # compiles grammars for a second

    jsonschema.Draft202012Validator.check_schema(schema())
    validator = jsonschema.Draft202012Validator(schema())
    for name, file in recipe_files().items():
        validator.validate(yaml.safe_load(file.read_text()))
        assert load_file(file).name == name
    text = starting_recipe("my-paper")
    validator.validate(yaml.safe_load(text))
    assert load_text(text, "my-paper.yaml", "my-paper").default_variant == "cpu"
    paper = {"title": "T", "venue": "V", "year": 2020, "licence": "MIT"}
    data = {"name": "x", "paper": paper, "variants": {"a": {"base": "debian:12"}}}
    validator.validate(data)
    for wrong in (
        {"pins": {"pyton": "3"}},
        {"pins": {"python": 3.1}},
        {"blocks": [{"python": {"venv": True}}]},
        {"blocks": ["pythn"]},
        {"requires": {"memory": "4 gigabytes"}},
        {"wheel": []},
    ):
        data["variants"]["a"] = {"base": "debian:12", **wrong}
        assert not validator.is_valid(data), wrong


def test_every_field_is_described():
    def models(model):
        yield model
        for child in model.__subclasses__():
            yield from models(child)

    bare = [
        f"{m.__name__}.{n}"
        for m in (*models(RecipePart), Claim, ClaimBaseline)
        for n, f in m.model_fields.items()
        if not f.description
    ]
    assert bare == []
