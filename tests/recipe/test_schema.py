"""The JSON Schema says what the models say, and the recipes that we ship fulfil both."""

from __future__ import annotations

import pytest
import yaml

from reprokit.recipe.claim import Claim, ClaimBaseline
from reprokit.recipe.find import recipe_files
from reprokit.recipe.load import load_file, load_text
from reprokit.recipe.model import RecipePart
from reprokit.recipe.schema import schema
from reprokit.recipe.start import starting_recipe


@pytest.fixture(scope="module")
def validator():
    # Here, because it compiles grammars for a second, in each worker of the suite.
    import jsonschema

    jsonschema.Draft202012Validator.check_schema(schema())
    return jsonschema.Draft202012Validator(schema())


@pytest.mark.parametrize("name", recipe_files())
@pytest.mark.slow
def test_shipped_recipes_fulfil_it(validator, name):
    file = recipe_files()[name]
    validator.validate(yaml.safe_load(file.read_text()))
    assert load_file(file).name == name


@pytest.mark.slow
def test_the_starting_recipe_fulfils_it(validator):
    text = starting_recipe("my-paper")
    validator.validate(yaml.safe_load(text))
    assert load_text(text, "my-paper.yaml", "my-paper").default_variant == "cpu"


@pytest.mark.parametrize(
    "wrong",
    [
        {"pins": {"pyton": "3"}},
        {"pins": {"python": 3.1}},
        {"blocks": [{"python": {"venv": True}}]},
        {"blocks": ["pythn"]},
        {"requires": {"memory": "4 gigabytes"}},
        {"wheel": []},
    ],
)
@pytest.mark.slow
def test_it_refuses_what_the_models_refuse(validator, wrong):
    data = {
        "name": "x",
        "paper": {"title": "T", "venue": "V", "year": 2020, "licence": "MIT"},
        "variants": {"a": {"base": "debian:12"}},
    }
    validator.validate(data)
    data["variants"]["a"] |= wrong
    assert not validator.is_valid(data)


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
