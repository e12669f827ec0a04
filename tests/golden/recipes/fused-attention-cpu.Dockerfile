# fused-attention, variant cpu
ARG BASE=debian:12
ARG REPROKIT_WHEELS=
ARG REPROKIT_APT=
FROM ${BASE} AS base
ARG REPROKIT_APT

ENV LANG=C.UTF-8
# Old images have expired certificates (pitfall apt-expired-ca), which are renewed before anything uses TLS.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block base: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends ca-certificates; \
    apt-get clean; rm -rf /var/lib/apt/lists/* /tmp/locked.list; \
    expect distribution debian:12 "$(. /etc/os-release; echo "$ID:$VERSION_ID")"; \
    expect certificates present "$(test -s /etc/ssl/certs/ca-certificates.crt && echo present)"

RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block python: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends python3.11 python3.11-venv; \
    apt-get clean; rm -rf /var/lib/apt/lists/* /tmp/locked.list; \
    python3.11 -m venv /opt/venv
# One environment, first on PATH in the image itself: build, run, shell and exec use the same python
# (pitfall conda-wrong-python).
ENV PATH=/opt/venv/bin:${PATH}
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block python: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    expect 'first python on PATH' /opt/venv/bin/python3 "$(command -v python3)"; \
    expect python 3.11 "$(python3 -c 'import platform; print(platform.python_version())')"

# reprokit sets REPROKIT_WHEELS and serves exactly the locked set. Without it, pip uses its own indexes.
ARG REPROKIT_WHEELS
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block wheels: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    if [ -n "${REPROKIT_WHEELS:-}" ]; then \
        set -- --index-url "$REPROKIT_WHEELS" --trusted-host wheels.reprokit.invalid; \
    else \
        set -- --extra-index-url https://download.pytorch.org/whl/cpu; \
    fi; \
    python3 -m pip install --no-cache-dir --disable-pip-version-check --prefer-binary "$@" \
        torch==2.13.0+cpu \
        numpy==1.26.4 \
        ninja==1.11.1.4; \
    found() { python3 -m pip show --disable-pip-version-check "$1" | sed -n 's/^Version: //p'; }; \
    expect torch 2.13.0+cpu "$(found torch)"; \
    expect numpy 1.26.4 "$(found numpy)"; \
    expect ninja 1.11.1.4 "$(found ninja)"; \
    python3 -m pip check --disable-pip-version-check

# pitfall cuda-mismatch: the wheel's own CUDA is tested.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block torch: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    expect torch 2.13.0+cpu "$(python3 -c 'import torch; print(torch.__version__)')"; \
    expect 'CUDA of torch' none "$(python3 -c 'import torch; print(torch.version.cuda or "none")')"

RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block extension: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends gcc-12 g++-12 libc6-dev python3.11-dev; \
    apt-get clean; rm -rf /var/lib/apt/lists/* /tmp/locked.list; \
    for tool in gcc g++; do \
        for name in "$tool" "$(uname -m)-linux-gnu-$tool"; do ln -sf "/usr/bin/$tool-"12 "/usr/local/bin/$name"; done; \
    done; \
    ln -sf gcc /usr/local/bin/cc; ln -sf g++ /usr/local/bin/c++; \
    expect c++ runnable "$(c++ --version >&2 && echo runnable)"
# pitfall gcc-too-new: torch and nvcc both use this compiler instead of the distribution's newest.
ENV CC=/usr/local/bin/gcc CXX=/usr/local/bin/g++
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block extension: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    expect gcc 12 "$(gcc -dumpfullversion)"; \
    expect g++ 12 "$(c++ -dumpfullversion)"; \
    expect ninja runnable "$(ninja --version >&2 && echo runnable)"; \
    expect Python.h present "$(test -f "$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["include"])')/Python.h" && echo present)"; \
    expect torch/extension.h present "$(python3 -c 'import os; from torch.utils.cpp_extension import include_paths; print("present" if any(os.path.exists(p + "/torch/extension.h") for p in include_paths()) else "")')"

WORKDIR /workspace
