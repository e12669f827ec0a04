"""What a Dockerfile does, known before its first step runs. Expectations are BuildKit's."""

from __future__ import annotations

import pytest

from reprokit.errors import UsageError
from reprokit.image.dockerfile import (
    Copy,
    Evaluation,
    MakeFolder,
    Mount,
    Operation,
    Run,
    Settings,
    Words,
    global_arguments,
    parse,
)


def evaluated(
    text: str, config: dict | None = None, given: dict[str, str] | None = None, before: str = "FROM x\n"
) -> tuple[list[Operation], dict]:
    """The operations and settings of the last stage."""
    dockerfile = parse(before + text)
    words = Words(dockerfile, "Dockerfile")
    globals_ = global_arguments(dockerfile, words, given or {}, {"TARGETARCH": "amd64"})
    evaluation = Evaluation(dockerfile.stages[-1], Settings(dict(config or {})), words, given or {}, globals_)
    found = [operation for _, operation in evaluation.operations() if operation]
    return found, evaluation.settings.config


def test_steps_see_arguments_and_variables_of_which_the_latter_win() -> None:
    text = "ARG A=1\nARG B\nARG TARGETARCH\nARG G\nENV C=$A-${B:-none} A=2\nRUN true\nARG LATE=x\n"
    (run,), config = evaluated(text, {"Env": ["P=q"]}, {"B": "given"}, "ARG G=global\nFROM x\n")
    assert isinstance(run, Run)
    assert run.environment == {"A": "2", "B": "given", "C": "1-given", "P": "q", "TARGETARCH": "amd64", "G": "global"}
    assert config["Env"] == ["P=q", "C=1-given", "A=2"]


def test_variables_of_proxies_are_no_part_of_a_step() -> None:
    (run,), _ = evaluated("ARG http_proxy=http://a\nRUN true", {"Env": ["HTTPS_PROXY=http://b"]})
    assert isinstance(run, Run) and run.environment == {}


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("RUN echo $X", ("/bin/sh", "-c", "echo $X")),
        ('RUN ["echo", "$X"]', ("echo", "$X")),
        ("RUN a && \\\n  # no\n  b", ("/bin/sh", "-c", "a &&   b")),
        ('SHELL ["/bin/bash", "-c"]\nRUN a', ("/bin/bash", "-c", "a")),
        ("RUN <<EOF\na\nb $X\nEOF", ("/bin/sh", "-c", "a\nb $X\n")),
        ("RUN <<-EOF\n\ta\n\tEOF", ("/bin/sh", "-c", "a\n")),
        ("RUN cat <<A - <<'B'\n1\nA\n2\nB", ("/bin/sh", "-c", "cat <<A - <<'B'\n1\nA\n2\nB")),
        ("RUN <<EOF\n#!/usr/bin/env python3\nprint()\nEOF", ("/dev/pipes/EOF",)),
    ],
)
def test_a_step_runs_what_the_shell_gets(text: str, arguments: tuple[str, ...]) -> None:
    *_, run = evaluated(text)[0]
    assert isinstance(run, Run) and run.arguments == arguments


def test_another_escape_character_leaves_backslashes_alone() -> None:
    (run,), config = evaluated("ENV A=c:\\x`\n  B=2\nRUN a `\n b", before="# escape=`\nFROM x\n")
    assert isinstance(run, Run) and run.arguments[-1] == "a  b"
    assert config["Env"] == ["A=c:\\x", "B=2"]


def test_settings_are_those_of_the_image() -> None:
    text = """
MAINTAINER me
USER a:b
WORKDIR /a
WORKDIR b/../c
LABEL x="1 2" y=3
EXPOSE 80 90-91/udp
VOLUME /v
VOLUME ["/w w"]
STOPSIGNAL SIGINT
HEALTHCHECK --interval=1m30s --start-period=0.5s --retries=3 CMD curl x
ENTRYPOINT ["e"]
CMD c $X
ONBUILD RUN d
SHELL ["/bin/bash", "-c"]
"""
    steps, config = evaluated(text, {"Cmd": ["base"]})
    assert [step.path for step in steps if isinstance(step, MakeFolder)] == ["/a", "/a/c"]
    assert config == {
        "User": "a:b",
        "WorkingDir": "/a/c",
        "Labels": {"x": "1 2", "y": "3"},
        "ExposedPorts": {"80/tcp": {}, "90/udp": {}, "91/udp": {}},
        "Volumes": {"/v": {}, "/w w": {}},
        "StopSignal": "SIGINT",
        "Healthcheck": {
            "Test": ["CMD-SHELL", "curl x"],
            "Interval": 90 * 10**9,
            "StartPeriod": 10**9 // 2,
            "Retries": 3,
        },
        "Entrypoint": ["e"],
        "Cmd": ["/bin/sh", "-c", "c $X"],
        "OnBuild": ["RUN d"],
        "Shell": ["/bin/bash", "-c"],
    }


def test_an_entry_point_drops_the_command_of_the_base_only() -> None:
    base = {"Cmd": ["base"], "Entrypoint": ["base"]}
    assert evaluated("ENTRYPOINT e", base)[1] == {"Entrypoint": ["/bin/sh", "-c", "e"]}
    assert evaluated('CMD ["c"]\nENTRYPOINT ["e"]', base)[1] == {"Cmd": ["c"], "Entrypoint": ["e"]}


def test_triggers_of_the_base_come_first_and_only_once() -> None:
    steps, config = evaluated("RUN own", {"OnBuild": ["ENV A=1", "RUN $A"]})
    assert [step.arguments[-1] for step in steps if isinstance(step, Run)] == ["$A", "own"]
    assert config == {"Env": ["A=1"]}


def test_copies_name_sources_target_and_owner() -> None:
    text = 'ARG D=/t\nCOPY --from=0 --chown=a:b --chmod=755 --exclude=*.o --exclude=x a "b" $D/\nADD ["a b", "/"]'
    copy, add = evaluated(text)[0]
    assert isinstance(copy, Copy) and isinstance(add, Copy)
    assert (copy.sources, copy.target, copy.origin) == (("a", "b"), "/t/", "0")
    assert (copy.owner, copy.mode, copy.exclude, copy.unpacks) == ("a:b", "755", ("*.o", "x"), False)
    assert (add.sources, add.target, add.unpacks) == (("a b",), "/", True)


def test_files_in_a_dockerfile_have_their_variables_replaced_unless_quoted() -> None:
    text = "ENV X=1\nCOPY <<A <<'B' c /d/\n$X \"q\"\nA\n$X\nB\n"
    (copy,) = evaluated(text)[0]
    assert isinstance(copy, Copy)
    assert (copy.sources, copy.texts) == (("c",), (("A", '1 "q"\n'), ("B", "$X\n")))


def test_mounts_of_a_step() -> None:
    text = (
        "RUN --mount=target=/b,from=x,src=/s --mount=type=cache,id=$I,target=c,mode=0700,uid=5 "
        "--mount=type=secret,id=s --mount=type=secret,id=t,env=T,required --mount=type=tmpfs,dst=/t true"
    )
    (run,) = evaluated("WORKDIR /w\nARG I=key\n" + text)[0][1:]
    assert isinstance(run, Run)
    assert run.mounts == (
        Mount("bind", "/b", "/s", "x", "/b", readonly=True),
        Mount("cache", "/w/c", id="key", mode=0o700, user=5),
        Mount("secret", "/run/secrets/s", id="s"),
        Mount("secret", "", id="t", required=True, variable="T"),
        Mount("tmpfs", "/t", id="/t"),
    )


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("RUN true\nFOO bar", 3, "unknown instruction: FOO"),
        ("RUN --mount=type=ssh true", 2, "type 'ssh'"),
        ("RUN --mount=type=cache true", 2, "a mount needs a target"),
        ("RUN --mount=type=cache,target=/x,uid=a true", 2, "uid of a mount must be a number"),
        ("RUN --security=insecure true", 2, "no privileges"),
        ("RUN --network=host true", 2, "no network"),
        ("RUN", 2, "no command"),
        ("COPY a", 2, "too few words"),
        ("COPY --frm=a b c", 2, "no option --frm"),
        ("COPY --chown=a --chown=b c d", 2, "twice"),
        ("EXPOSE 0", 2, "not a port"),
        ("SHELL bash", 2, "JSON"),
        ("HEALTHCHECK maybe", 2, "HEALTHCHECK is written"),
        ("HEALTHCHECK --interval=soon CMD x", 2, "not a duration"),
        ("ONBUILD ONBUILD RUN x", 2, "not allowed"),
        ("ENV a", 2, "two arguments"),
        ("ENV A=${A", 2, "missing"),
        ("ENV A=${A#*a*b*c*d}", 2, "stars"),
        ("RUN <<EOF\nx", 2, "unterminated heredoc"),
        ("FROM x AS A!", 2, "name of a stage"),
        ("FROM x y", 2, "FROM is written"),
    ],
)
def test_what_cannot_be_run_is_refused_by_its_line(text: str, line: int, why: str) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        evaluated(text)
    assert refused.value.where == f"Dockerfile:{line}"


@pytest.mark.parametrize(("text", "why"), [("", "no FROM"), ("RUN x\nFROM y", "before the first FROM")])
def test_a_dockerfile_begins_with_from(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse(text)
