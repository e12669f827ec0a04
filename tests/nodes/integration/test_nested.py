"""A login in a container whose engine runs outside: on a node, and on this machine."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import reprokit
from reprokit.container.execute import Completed, execute
from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from tests.support.builds import root_file_system
from tests.support.cluster import Cluster
from tests.support.names import unique
from tests.support.privileges import as_root
from tests.support.verbs import run_verb as call
from tests.support.waiting import wait_for

PORT = 2222


@contextlib.contextmanager
def login(engine: Engine, recipe: str, binds: list[str], command: list[str]) -> Iterator[str]:
    """The ID of a container that uses the programs of this machine; the recipe's image is on the engine, too."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for link in ("bin", "sbin", "lib", "lib64"):
            entry = tarfile.TarInfo(link)
            entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{link}"
            tar.addfile(entry)
    out.seek(0)
    name = unique("login")
    engine.import_image(out, name, "1", [])
    tools = io.BytesIO(root_file_system(("sh", "cat", "tail", "touch")))
    engine.import_image(tools, f"reprokit/{recipe}", "cpu", [f"LABEL reprokit.recipe={recipe} reprokit.variant=cpu"])
    host = {"NetworkMode": "host", "Binds": ["/usr:/usr", "/etc:/etc", *binds]}
    container = engine.create_container(name, {"Image": f"{name}:1", "Cmd": command, "HostConfig": host})
    try:
        engine.start(container)
        yield container
    finally:
        for each in [container, *(made.id for made in engine.containers([f"reprokit.recipe={recipe}"]))]:
            with contextlib.suppress(ReprokitError):
                engine.remove(each, force=True)
        for image in (f"{name}:1", f"reprokit/{recipe}:cpu"):
            engine.remove_image(image, force=True)


def test_on_a_node(nodes: Cluster, recipe):
    node, name = nodes["node3"], recipe()
    config = f"{node.folder}/inner_config"
    Path(config).write_text((node.folder / "sshd_config").read_text().replace("Port 22", f"Port {PORT}"))
    hosts = nodes.folder / "known_hosts"
    before = hosts.read_text()
    hosts.write_text(before + f"[{node.address}]:{PORT} {(node.folder / 'hostkey.pub').read_text()}")
    binds = [f"{node.folder}:{node.folder}", f"{node.home}:/root", "/run/docker.sock:/var/run/docker.sock"]
    serve = ["/bin/sh", "-c", f"mkdir -p /run/sshd /var/tmp /tmp; exec /usr/sbin/sshd -D -e -f {config}"]
    address = f"{node.login}:{PORT}"
    try:
        engine = node.engine()
        with login(engine, name, binds, serve) as container:
            wait_for(lambda: b"listening" in b"".join(engine.logs(container)))
            (row,) = json.loads(call("nodes", address, "--timeout", "60", "--json").stdout)
            assert row["nested"] is True and row["engine"]
            assert "the login is in a container" in call("nodes", address, "--timeout", "60").stdout
            # The workspace is below /root, a folder of the machine; the engine gets the machine's path.
            done = call("run", name, "--on", address, "--network", "none", "--", "touch", "/workspace/made")
            assert done.returncode == 0, done.stderr
            assert [*node.home.glob(f".cache/reprokit/workspaces/{name}*/made")]
            # /tmp exists only in the container.
            refused = call("run", name, "--on", address, "-v", "/tmp:/x", "--", "true")
            assert refused.returncode == 3, refused.stderr
            assert "/tmp is in the container that you are logged in to" in refused.stderr
    finally:
        hosts.write_text(before)


@as_root("is root in a container, which must own the folders that it sees")
def test_here(engine: Engine, recipe, tmp_path: Path):
    """The same with reprokit itself in the container, in a folder with another path there."""
    name, code = recipe(), Path(reprokit.__file__).parent.parent
    folders = {code, Path(sys.prefix), Path(sys.prefix).resolve(), Path(sys.base_prefix)}
    binds = [f"{folder.resolve()}:{folder}:ro" for folder in folders if not folder.is_relative_to("/usr")]
    socket = engine.url.removeprefix("unix://")
    binds += [f"{tmp_path}:/login", f"{socket}:/var/run/docker.sock"]
    with login(engine, name, binds, ["/bin/sleep", "9999"]) as container:

        def inside(home: str, *words: str) -> Completed:
            env = {"PYTHONPATH": str(code), "REPROKIT_HOME": home, "REPROKIT_CONFIG": "/dev/null"}
            argv = ["/usr/bin/env", "-C", "/login", sys.executable, "-m", "reprokit", *words]
            return execute(engine, container, argv, env=env, logged=False)

        done = inside("/login/home", "run", name, "--network", "none", "--", "touch", "/workspace/made")
        assert done.exit_code == 0, done.stderr
        assert [*(tmp_path / "home" / "workspaces").glob(f"{name}-*/made")]
        refused = inside("/elsewhere", "run", name, "--name", f"{name}-2", "--", "true")
        assert refused.exit_code == 3, refused
        assert "/elsewhere" in refused.stderr and "REPROKIT_HOME" in refused.stderr
        assert not Path("/elsewhere").exists()
