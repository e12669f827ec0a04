"""Own blocks of a stranger's checkout: which instructions they can write."""

from __future__ import annotations

import io

import pytest
from dockerfile_parse import DockerfileParser
from hypothesis import given, settings
from hypothesis import strategies as st

from reprokit.errors import UsageError
from reprokit.image.instructions import checked

HARMLESS = "RUN echo one; \\\n    echo two\n"
WRITTEN = [
    "FROM debian:12\n", "from debian:12\n", " FROM debian:12\n", "ADD https://example.org/x /x\n", "LABEL a=b\n",
    'SHELL ["/bin/bash", "-c"]\n', "ARG X=1\n", "USER root\n", "VOLUME /x\n", "ONBUILD RUN x\n", "EXPOSE 1\n",
    "CMD x\n",
    "ENTRYPOINT x\n", "HEALTHCHECK CMD x\n", "STOPSIGNAL 9\n", "MAINTAINER x\n", "run x\n", "RUN\n", "RUN \n",
    "RUN\tx\n",
    "# escape=`\n", "#syntax = example.org/frontend\n", "# CHECK=skip=all\n", "# a comment \\\n",
    "RUN --mount=type=secret,id=x cat /run/secrets/x\n", "RUN --network=host x\n", "RUN --security=insecure x\n",
    "RUN \\\n    --mount=type=bind,from=example.org/x x\n", "RUN --mo\\\nunt=type=ssh x\n",
    "RUN cat <<EOF\nFROM debian:12\nEOF\n", "COPY --from=git <<EOF /x\nx\nEOF\n", "RUN 3<<-EOF cat\nEOF\n",
    "RUN x \\\n", "RUN x \\", "RUN x \\\n\n", "\\\nFROM debian:12\n", "RUN x \\ \nFROM debian:12\n",
    "RUN x \\\\\nFROM debian:12\n", "RUN x \\\n\nFROM debian:12\n", "RUN x \\\n# y\nRUN z\n",
    "RUN x\rFROM debian:12\n", "RUN x\x0bFROM y\n", "RUN x\x00\n", "RUN x\u2028FROM debian:12\n", "RUN x\x85FROM y\n",
    "\u00a0FROM debian:12\n", "RUN \x1b[2Jx\n", "RUN \u202etxt\n",
    "COPY x /x\n", "COPY --from=alpine:3 /x /x\n", "COPY --from=0 /x /x\n", "COPY --from=later /x /x\n",
    "COPY --from=git --chown=0:0 /x /x\n", "COPY --chmod=4755 --from=git /x /x\n", 'COPY --from=git ["/x", "/x"]\n',
    "COPY --from=GIT /x /x\n", "COPY --from=$STAGE /x /x\n", "COPY --from=git /x\n", "COPY --from=git /x $HOME\n",
    "COPY --link --from=git /x /x\n", "COPY --from=git /x /x --from=alpine\n",
    "ENV A 1\n", "ENV =1\n", "ENV\n", "ENV A-B=1\n",
    "WORKDIR x\n", "WORKDIR /proc/self/fd/8\n", "WORKDIR $HOME\n", "WORKDIR /a/../proc\n", 'WORKDIR "/proc"\n',
    "WORKDIR \n",
    "RUN x\n" * 101,
]  # fmt: skip


@pytest.mark.parametrize("text", WRITTEN)
def test_only_instructions_that_all_builders_read_alike_are_written(text):
    with pytest.raises(UsageError):
        checked(HARMLESS + text, "own.j2", ["git"])
    assert checked(HARMLESS + "COPY --from=git /x /y\n", "own.j2", ["git"])


PIECES = [
    "RUN ", "FROM x", "COPY --from=git /a /b",
    "ENV A=", "WORKDIR /", "#", "\\", "\n", " ", "\t", "<<E", "\r", "x", "'", '"',
    "$", "escape=`", "--mount=", "\\\n", "\n\n", "\u2028",
]  # fmt: skip


@settings(max_examples=400)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
@pytest.mark.slow
def test_another_parser_reads_what_was_checked(text):
    try:
        accepted = checked(text, "own.j2", ["git"])
    except UsageError:
        return
    read = DockerfileParser(fileobj=io.BytesIO(b"FROM base AS own\n" + accepted.encode() + b"USER end\n")).structure
    words = [each["instruction"] for each in read if each["instruction"] != "COMMENT"]
    assert words[0] == "FROM" and words[-1] == "USER" and set(words[1:-1]) <= {"RUN", "ENV", "WORKDIR", "COPY"}
