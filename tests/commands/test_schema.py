from __future__ import annotations

import json


def test_it_is_json_and_names_the_blocks(call):
    schema = json.loads(call("schema").stdout)
    assert "tvm" in schema["$defs"]["Block"]["anyOf"][0]["enum"]
    assert schema["properties"]["variants"]["description"]
