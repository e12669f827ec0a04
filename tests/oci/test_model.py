"""Configs of images that engines would understand differently."""

from __future__ import annotations

import pytest

from reprokit.oci.model import ambiguous


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ('{"config": {"Labels": {"a": "1", "A": "2"}, "Env": []}, "container_config": {"Env": []}}', ""),
        ('{"config": null, "rootfs": {}}', ""),
        ('{"config": {}, "Config": {"Entrypoint": ["/evil"]}}', "config"),
        ('{"Config": {"Entrypoint": ["/evil"]}}', "Config"),
        ('{"config": {}, "config": {}}', "config"),
        ('{"config": {"Env": [], "env": ["A=1"]}}', "Env"),
        ('{"config": {"Labels": {"a": "1", "a": "2"}}}', "a"),
        ('{"config": {"labels": {"a": "1"}}}', "labels"),
        ('{"rootfs": {"diff_ids": [], "Diff_IDs": ["sha256:1"]}}', "diff_ids"),
        ('{"rootf\\u017f": {}}', "rootf\u017f"),
    ],
)
def test_a_key_that_readers_understand_differently(config, key):
    assert ambiguous(config.encode()) == key
