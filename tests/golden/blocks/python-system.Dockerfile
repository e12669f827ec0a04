RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block python: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    apt-get update; \
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3.9 python3.9-venv; \
    rm -rf /var/lib/apt/lists/*; \
    python3.9 -m venv --system-site-packages /opt/venv
# One environment, first on PATH in the image itself: build, run, shell and exec see the same python
# (pitfall conda-wrong-python).
ENV PATH=/opt/venv/bin:${PATH}
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block python: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    expect 'first python on PATH' /opt/venv/bin/python3 "$(command -v python3)"; \
    expect python 3.9 "$(python3 -c 'import platform; print(platform.python_version())')"
