"""Jupyter from a container."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.error
import urllib.request

from reprokit.container.lifecycle import ensure_running, usual_name
from reprokit.container.notebook import placed
from tests.support.ports import free_port


def test_where_a_wheels_files_go():
    for name in ("jupyterlab/labapp.py", "jupyterlab-4.0.dist-info/METADATA"):
        assert placed(name) == f"site/{name}"
    assert placed("jupyterlab-4.0.data/data/share/jupyter/lab/x.js") == "share/jupyter/lab/x.js"
    assert placed("x-1.data/platlib/x.so") == "site/x.so"
    assert [placed(name) for name in ("x-1.data/scripts/x", "../etc/passwd", "/etc/passwd")] == [""] * 3


def _get(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=120) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_it_serves_with_a_token_on_loopback_and_ends_with_us(engine, made, command, call, sh, processes):
    port = free_port()
    container = usual_name(engine, made)
    with subprocess.Popen(
        command("notebook", made.recipe.name, "-p", str(port)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            url = server.stdout.readline().strip()
            assert url.startswith(f"http://127.0.0.1:{port}/lab?token="), server.poll()
            token = url.partition("token=")[2]
            assert len(token) >= 32
            api = f"http://127.0.0.1:{port}/api/kernels"
            assert (_get(api), _get(f"{api}?token={token}"), _get(url)) == (403, 200, 200)
            started = urllib.request.Request(f"{api}?token={token}", data=b"", method="POST")
            with urllib.request.urlopen(started, timeout=120) as answer:
                assert json.load(answer)["name"] == "python3"
            described = engine.api.inspect_container(container)
            assert described["NetworkSettings"]["Ports"]["8888/tcp"] == [{"HostIp": "127.0.0.1", "HostPort": str(port)}]
            running = processes(container)
            assert "ipykernel" in running
            assert token not in json.dumps(described) + running
            script = "cat /proc/[0-9]*/cmdline; find / -xdev -name '.reprokit-*' 2>/dev/null || [ $(id -u) != 0 ]"
            assert token not in sh(container, script)
            assert engine.host.port_is_free(port) is False
            server.send_signal(signal.SIGINT)
            said = server.communicate(timeout=120)[1].splitlines()
            assert server.returncode == 130
        finally:
            server.kill()  # else a failure above waits for it for ever
    assert engine.host.port_is_free(port)
    shown = [line for line in said if container in line or "http" in line]
    assert [line.partition(" ")[0] for line in shown] == ["starting", "stopped"] and said[-1] == "interrupted"
    assert "Serving notebooks" in call("logs", container).stdout
    assert ensure_running(engine, made) == container
    assert "ipykernel" not in processes(container)
    # Python reads what the image has itself before Jupyter's own requirements.
    assert sh(container, "python3 -c 'import sys; print(sys.path[-1])'") == "/opt/reprokit-jupyter/site\n"
    assert call("notebook", made.recipe.name, "--network", "none").returncode == 2
