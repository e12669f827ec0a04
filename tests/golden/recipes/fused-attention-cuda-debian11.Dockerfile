# fused-attention, variant cuda-debian11
ARG BASE=debian:11
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
    expect distribution debian:11 "$(. /etc/os-release; echo "$ID:$VERSION_ID")"; \
    expect certificates present "$(test -s /etc/ssl/certs/ca-certificates.crt && echo present)"

RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block python: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends python3.9 python3.9-venv; \
    apt-get clean; rm -rf /var/lib/apt/lists/* /tmp/locked.list; \
    python3.9 -m venv /opt/venv
# One environment, first on PATH in the image itself: build, run, shell and exec use the same python
# (pitfall conda-wrong-python).
ENV PATH=/opt/venv/bin:${PATH}
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block python: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    expect 'first python on PATH' /opt/venv/bin/python3 "$(command -v python3)"; \
    expect python 3.9 "$(python3 -c 'import platform; print(platform.python_version())')"

# contrib and non-free of the main archive only: those of the security archive list a libcuda1 that cannot be
# downloaded. The links to Debian's own driver are removed: a container gets the driver of its host, and fails to
# initialise a second libcuda.so.1 of another version. nvcc finds the pinned compiler on PATH.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cuda: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    suite="$(. /etc/os-release; echo "$VERSION_CODENAME")"; \
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do \
        [ ! -f "$file" ] || sed -i -E "s/^(deb .* $suite main)$/\1 contrib non-free/; /^Suites: $suite( |$)/,/^Components:/ s/^(Components: main)$/\1 contrib non-free/" "$file"; \
    done; \
    sources=""; [ -z "${REPROKIT_APT:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends nvidia-cuda-toolkit libcuda1 g++-10; \
    apt-get clean; rm -rf /var/lib/apt/lists/* /tmp/locked.list; \
    for tool in gcc g++; do \
        for name in "$tool" "$(uname -m)-linux-gnu-$tool"; do ln -sf "/usr/bin/$tool-"10 "/usr/local/bin/$name"; done; \
    done; \
    ln -sf gcc /usr/local/bin/cc; ln -sf g++ /usr/local/bin/c++; \
    for name in libcuda libnvidia-ml libnvidia-ptxjitcompiler; do rm -f "/usr/lib/x86_64-linux-gnu/$name.so.1"; done; \
    ldconfig
ENV CUDA_HOME=/usr
# pitfall devel-vs-runtime: a runtime image has no nvcc. pitfall gcc-too-new: nvcc needs a host compiler, and refuses one
# that is too new.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cuda: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    expect nvcc 11.2 "$(nvcc --version | sed -n 's/.*, V//p')"; \
    expect cuda_runtime.h present "$(test -e "$CUDA_HOME/include/cuda_runtime.h" && echo present)"; \
    expect libcudart.so present "$(ldconfig -p | grep -q 'libcudart\.so' && echo present)"; \
    probe="$(mktemp -d)"; echo '__global__ void kernel() {}' > "$probe/kernel.cu"; \
    expect nvcc 'able to compile' "$(nvcc -c -o "$probe/kernel.o" "$probe/kernel.cu" >&2 && echo 'able to compile')"; \
    rm -r "$probe"

# reprokit sets REPROKIT_WHEELS and serves exactly the locked set. Without it, pip uses its own indexes.
ARG REPROKIT_WHEELS
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block wheels: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    if [ -n "${REPROKIT_WHEELS:-}" ]; then \
        set -- --index-url "$REPROKIT_WHEELS" --trusted-host wheels.reprokit.invalid; \
    else \
        set --; \
    fi; \
    python3 -m pip install --no-cache-dir --disable-pip-version-check --prefer-binary "$@" \
        torch==1.13.1 \
        numpy==1.23.5 \
        ninja==1.11.1.4 \
        setuptools==65.7.0; \
    found() { python3 -m pip show --disable-pip-version-check "$1" | sed -n 's/^Version: //p'; }; \
    expect torch 1.13.1 "$(found torch)"; \
    expect numpy 1.23.5 "$(found numpy)"; \
    expect ninja 1.11.1.4 "$(found ninja)"; \
    expect setuptools 65.7.0 "$(found setuptools)"; \
    python3 -m pip check --disable-pip-version-check

# pitfall cuda-mismatch: the wheel's own CUDA is tested.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block torch: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    expect torch 1.13.1 "$(python3 -c 'import torch; print(torch.__version__)')"; \
    expect 'CUDA of torch' 11.7 "$(python3 -c 'import torch; print(torch.version.cuda or "none")')"

RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block extension: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends gcc-10 g++-10 libc6-dev python3.9-dev; \
    apt-get clean; rm -rf /var/lib/apt/lists/* /tmp/locked.list; \
    for tool in gcc g++; do \
        for name in "$tool" "$(uname -m)-linux-gnu-$tool"; do ln -sf "/usr/bin/$tool-"10 "/usr/local/bin/$name"; done; \
    done; \
    ln -sf gcc /usr/local/bin/cc; ln -sf g++ /usr/local/bin/c++; \
    expect c++ runnable "$(c++ --version >&2 && echo runnable)"
# pitfall gcc-too-new: torch and nvcc both use this compiler instead of the distribution's newest.
ENV CC=/usr/local/bin/gcc CXX=/usr/local/bin/g++
# pitfall devel-vs-runtime: extensions for GPUs need the pinned nvcc.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block extension: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    expect gcc 10 "$(gcc -dumpfullversion)"; \
    expect g++ 10 "$(c++ -dumpfullversion)"; \
    expect ninja runnable "$(ninja --version >&2 && echo runnable)"; \
    expect Python.h present "$(test -f "$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["include"])')/Python.h" && echo present)"; \
    expect nvcc 11.2 "$(nvcc --version | sed -n 's/.*, V//p')"; \
    expect torch/extension.h present "$(python3 -c 'import os; from torch.utils.cpp_extension import include_paths; print("present" if any(os.path.exists(p + "/torch/extension.h") for p in include_paths()) else "")')"

ENV TORCH_CUDA_ARCH_LIST="7.0;7.5;8.0;8.6"
WORKDIR /workspace
