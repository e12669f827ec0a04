# featgraph, variant as-published
ARG BASE=debian:13
FROM ${BASE} AS base
# What each RUN below begins and ends with, so that the same inputs give the same layers: no random names and seeds, no
# logs, and one date for all that it changed. A removed file of a lower layer leaves a mark that keeps the time of the
# build, so logs and caches are emptied instead. The fraction of a second grows from step to step for engines that find
# changes by date; layers do not hold it. The pause keeps apart what this step and the one before it changed.
SHELL ["/bin/sh", "-c", "\
    export SOURCE_DATE_EPOCH=946684800 PYTHONHASHSEED=0 PERL_HASH_SEED=0 PYTHONDONTWRITEBYTECODE=1 XDG_CACHE_HOME=/tmp; \
    start=\"$(date +%s.%N)\"; second=\"${start%.*}\"; sleep 0.02; \
    /bin/sh -c \"$0\" || exit; \
    find /tmp /var/tmp -mindepth 1 -depth -newerct \"@$start\" '(' ! -type d -o -empty ')' -delete; \
    for path in /var/log /var/cache/fontconfig /var/cache/ldconfig /etc/machine-id /var/lib/dbus/machine-id; do \
        [ ! -e \"$path\" ] || find \"$path\" -type f -newerct \"@$start\" -exec truncate --size=0 {} +; \
    done; \
    find / -xdev '(' -path /dev -o -path /proc -o -path /sys ')' -prune \
        -o '(' -newermt \"@$start\" -o -type d -newerct \"@$start\" ')' \
        -exec touch --no-dereference --date=\"@$SOURCE_DATE_EPOCH.${second#?}\" {} + # step:"]

ARG REPROKIT_APT_BASE=
ENV LANG=C.UTF-8
# Old images have expired certificates (pitfall apt-expired-ca), which are renewed before anything uses TLS.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block base: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_BASE:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_BASE ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends ca-certificates; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    expect distribution debian:13 "$(. /etc/os-release; echo "$ID:$VERSION_ID")"; \
    mkdir -p /workspace; \
    expect certificates present "$(test -s /etc/ssl/certs/ca-certificates.crt && echo present)"

FROM base AS image
ARG REPROKIT_APT_PYTHON=
# One environment, first on PATH in the image itself: build, run, shell and exec use the same python
# (pitfall conda-wrong-python).
ENV PATH=/opt/venv/bin:${PATH}
# Without setuptools, which older Pythons add: a later layer that replaces it could not remove it without a trace. The
# block wheels adds it where no wheel brings it.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block python: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_PYTHON:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_PYTHON ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends python3.13 python3.13-venv; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    python3.13 -m venv --system-site-packages /opt/venv; \
    [ ! -e /opt/venv/lib/*/site-packages/setuptools ] || /opt/venv/bin/python3 -m pip uninstall --yes --quiet --disable-pip-version-check setuptools; \
    expect 'first python on PATH' /opt/venv/bin/python3 "$(command -v python3)"; \
    expect python 3.13 "$(python3 -c 'import platform; print(platform.python_version())')"

ARG REPROKIT_APT=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block apt: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends python3-attr python3-decorator python3-numpy python3-psutil python3-scipy; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    for package in python3-attr python3-decorator python3-numpy python3-psutil python3-scipy; do \
        expect "$package" installed "$(dpkg-query -W -f '${db:Status-Status}' "${package%%=*}")"; \
    done

ARG REPROKIT_APT_LLVM=
# pitfall llvm-from-source: the distribution's packages need 0.5 GB and save an hour of compiling.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block llvm: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_LLVM:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_LLVM ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends libllvm19; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    expect llvm 19 "$(dpkg-query -W -f '${Version}' libllvm19 | sed 's/^[0-9]*://')"

FROM base AS git
ARG REPROKIT_APT_GIT=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_GIT:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_GIT ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends git; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    expect git runnable "$(git --version >&2 && echo runnable)"
# Every https:// address is fetched below REPROKIT_GIT, submodules too. It is https:// itself unless reprokit serves the
# locked commits.
ARG REPROKIT_GIT=https://
RUN git config --global url."$REPROKIT_GIT".insteadOf https:// && git config --global advice.detachedHead false
# A commit is fetched by its ID, or with the complete history if the server refuses that. Submodules must be at the
# commits of the tree (pitfall submodule-missing).
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    export GIT_TERMINAL_PROMPT=0; \
    mkdir -p /opt/tvm; cd /opt/tvm; \
    git init -q; git remote add origin https://github.com/apache/tvm; \
    git fetch -q --depth 1 origin 701d2c32759c95951c4eeca229addd1036539698 || git fetch -q --tags origin '+refs/heads/*:refs/remotes/origin/*'; \
    git checkout -q 701d2c32759c95951c4eeca229addd1036539698; \
    expect 'commit of tvm' 701d2c32759c95951c4eeca229addd1036539698 "$(git rev-parse HEAD)"; \
    git submodule -q update --init --recursive --depth 1 || { \
        git submodule -q deinit --all --force; rm -rf .git/modules; git submodule -q update --init --recursive; \
    }; \
    expect 'submodules away from their commits' 0 "$(git submodule status --recursive | grep -c '^[^ ]')"; \
    find . -name .git -prune -exec rm -rf {} +
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    export GIT_TERMINAL_PROMPT=0; \
    mkdir -p /opt/featgraph; cd /opt/featgraph; \
    git init -q; git remote add origin https://github.com/amazon-science/FeatGraph; \
    git fetch -q --depth 1 origin f0a380f276f27cdc00f8bc1706a722faf8342474 || git fetch -q --tags origin '+refs/heads/*:refs/remotes/origin/*'; \
    git checkout -q f0a380f276f27cdc00f8bc1706a722faf8342474; \
    expect 'commit of featgraph' f0a380f276f27cdc00f8bc1706a722faf8342474 "$(git rev-parse HEAD)"; \
    find . -name .git -prune -exec rm -rf {} +
# With the folders above them, as COPY would make those with the time of the build.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    mkdir /product; cd /; \
    for path in /opt/featgraph; do path="$(realpath "$path")"; cp -a --parents "${path#/}" /product; done

FROM image AS with-git
COPY --from=git /product/ /
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    for path in /opt/featgraph; do \
        expect "$path" present "$(test -e "$path" && echo present)"; \
    done
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    printf '%s\n' /opt/featgraph/python > "$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/sources.pth"; \
    for path in /opt/featgraph/python; do \
        expect "$path" 'on sys.path' "$(python3 -c 'import sys; print("on sys.path" if sys.argv[1] in sys.path else "not on sys.path")' "$path")"; \
    done

FROM with-git AS tvm
ARG REPROKIT_APT_TVM=
COPY --from=git /opt/tvm /opt/tvm
# CMake 4 refuses projects that ask for less than 3.5, such as TVM up to 0.8 and its dmlc-core.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block tvm: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_TVM:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_TVM ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends cmake ninja-build g++-14 llvm-19-dev libedit-dev libtinfo-dev libxml2-dev zlib1g-dev; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    cmake="$(cmake --version | sed -n 's/^cmake version //p')"; \
    expect cmake 3.31 "$cmake"; \
    expect 'cmake below 4, that is' 3 "$cmake"; \
    expect gcc 14 "$(g++-14 -dumpfullversion)"; \
    expect llvm 19 "$(/usr/bin/llvm-config-19 --version)"
# llvm-config by its absolute path, as another environment's would shadow /usr/bin (pitfall llvm-config-path). Without
# it TVM builds, but reports "Target llvm is not enabled" (pitfall tvm-llvm-off). Options are appended to config.cmake,
# as its own set() lines override the command line. libbacktrace only improves traces, and needs an autotools build.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block tvm: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    mkdir /opt/tvm/build; cd /opt/tvm/build; cp ../cmake/config.cmake .; \
    printf 'set(%s)\n' 'USE_LLVM /usr/bin/llvm-config-19' 'USE_LIBBACKTRACE OFF' >> config.cmake; \
    cmake -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_SKIP_RPATH=ON -DCMAKE_C_COMPILER=gcc-14 -DCMAKE_CXX_COMPILER=g++-14 ..; \
    ninja tvm tvm_runtime; \
    mkdir -p /product/opt/tvm/build; cp libtvm.so libtvm_runtime.so /product/opt/tvm/build; \
    cp -r ../python /product/opt/tvm; \
    expect libtvm.so present "$(test -s /product/opt/tvm/build/libtvm.so && echo present)"; \
    cd /product; find . -mindepth 1 -type d | while IFS= read -r folder; do \
        [ ! -d "/$folder" ] || { chmod --reference="/$folder" "$folder"; chown --reference="/$folder" "$folder"; }; \
    done

FROM with-git AS with-tvm
COPY --from=tvm /product/ /
# pitfalls build-ok-artifact-missing, tvm-llvm-off, tvm-cuda-off, cublas-not-found
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block tvm: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    echo /opt/tvm/python > "$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/tvm.pth"; \
    expect 'libraries that libtvm.so does not find' 0 "$(ldd /opt/tvm/build/libtvm.so | grep -c 'not found')"; \
    expect tvm 0.7.0 "$(python3 -c 'import tvm; print(tvm.__version__)')"; \
    expect numpy 2.2 "$(python3 -c 'import numpy; print(numpy.__version__)')"; \
    for backend in llvm; do \
        expect "tvm.runtime.enabled $backend" 1 "$(python3 -c 'import sys, tvm; print(int(tvm.runtime.enabled(sys.argv[1])))' "$backend")"; \
    done

# pitfall missing-python-package
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block imports: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    for module in scipy.sparse tvm.topi.util featgraph.module featgraph.util; do \
        expect "$module" importable "$(python3 -c 'import sys, importlib; importlib.import_module(sys.argv[1]); print("importable")' "$module" | sed -n '$s/^importable$/&/p')"; \
    done

WORKDIR /workspace
SHELL ["/bin/sh", "-c"]
