"""The build context as a tar."""

from __future__ import annotations

import io
import tarfile

from reprokit.image.context import context_tar


def test_a_context_has_the_same_bytes_each_time():
    files = {"b": b"2", "Dockerfile": b"FROM x\n"}
    with context_tar(files) as one, context_tar(dict(reversed(files.items()))) as two:
        data = one.read()
        assert data == two.read()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert tar.getnames() == ["Dockerfile", "b"]
        assert {(m.mtime, m.uid, m.gid, m.mode) for m in tar} == {(0, 0, 0, 0o644)}
