# atoffer, variant cpu
ARG BASE=debian:12
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
    expect distribution debian:12 "$(. /etc/os-release; echo "$ID:$VERSION_ID")"; \
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
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends python3.11 python3.11-venv; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    python3.11 -m venv /opt/venv; \
    [ ! -e /opt/venv/lib/*/site-packages/setuptools ] || /opt/venv/bin/python3 -m pip uninstall --yes --quiet --disable-pip-version-check setuptools; \
    expect 'first python on PATH' /opt/venv/bin/python3 "$(command -v python3)"; \
    expect python 3.11 "$(python3 -c 'import platform; print(platform.python_version())')"

# torch and its dependencies only: the variant's own versions are installed over them, by the block wheels.
ARG REPROKIT_WHEELS_TORCH=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block torch: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    if [ -n "$REPROKIT_WHEELS_TORCH" ]; then \
        set -- --index-url "$REPROKIT_WHEELS_TORCH" --trusted-host wheels.reprokit.invalid; \
    else \
        set -- --extra-index-url https://download.pytorch.org/whl/cpu; \
    fi; \
    python3 -m pip install --no-cache-dir --disable-pip-version-check --prefer-binary "$@" torch==2.13.0+cpu; \
    python3 -m pip check --disable-pip-version-check
# pitfall cuda-mismatch: the wheel's own CUDA is tested.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block torch: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    expect torch 2.13.0+cpu "$(python3 -c 'import torch; print(torch.__version__)')"; \
    expect 'CUDA of torch' none "$(python3 -c 'import torch; print(torch.version.cuda or "none")')"

# reprokit sets REPROKIT_WHEELS and serves exactly the locked set. Without it, pip uses its own indexes. Before Python
# 3.12 an environment has setuptools; where no wheel brings another, it is the distribution's.
ARG REPROKIT_WHEELS=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block wheels: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    if [ -n "$REPROKIT_WHEELS" ]; then \
        set -- --index-url "$REPROKIT_WHEELS" --trusted-host wheels.reprokit.invalid; \
    else \
        set -- --extra-index-url https://download.pytorch.org/whl/cpu; \
    fi; \
    python3 -m pip install --no-cache-dir --disable-pip-version-check --prefer-binary "$@" \
        torch==2.13.0+cpu \
        numpy==1.26.4 \
        pandas==2.2.3 \
        matplotlib==3.9.4; \
    python3 -c 'import sys, importlib.util; sys.exit(sys.version_info < (3, 12) and not importlib.util.find_spec("setuptools"))' || \
        python3 -m pip install --no-cache-dir --disable-pip-version-check --no-index --no-deps /usr/share/python-wheels/setuptools-*.whl; \
    set -- $(python3 -m pip show --disable-pip-version-check torch numpy pandas matplotlib | sed -n 's/^Version: //p'); \
    expect torch 2.13.0+cpu "${1:-}"; shift; \
    expect numpy 1.26.4 "${1:-}"; shift; \
    expect pandas 2.2.3 "${1:-}"; shift; \
    expect matplotlib 3.9.4 "${1:-}"; shift; \
    python3 -m pip check --disable-pip-version-check

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
    mkdir -p /opt/atoffer/artifact; cd /opt/atoffer/artifact; \
    git init -q; git remote add origin https://github.com/anonymousforAD-pap534/AE-SC24-AToffer; \
    git fetch -q --depth 1 origin df35493db966801c5c1d3c56f1f7081b48d66c73 || git fetch -q --tags origin '+refs/heads/*:refs/remotes/origin/*'; \
    git checkout -q df35493db966801c5c1d3c56f1f7081b48d66c73; \
    expect 'commit of atoffer' df35493db966801c5c1d3c56f1f7081b48d66c73 "$(git rev-parse HEAD)"; \
    find . -name .git -prune -exec rm -rf {} +; \
    chmod -R a+rwX .
# With the folders above them, as COPY would make those with the time of the build.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    mkdir /product; cd /; \
    for path in /opt/atoffer/artifact; do path="$(realpath "$path")"; cp -a --parents "${path#/}" /product; done

FROM image AS with-git
COPY --from=git /product/ /
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    for path in /opt/atoffer/artifact; do \
        expect "$path" present "$(test -e "$path" && echo present)"; \
    done

# pitfall missing-python-package
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block imports: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    for module in numpy pandas matplotlib.pyplot; do \
        expect "$module" importable "$(python3 -c 'import sys, importlib; importlib.import_module(sys.argv[1]); print("importable")' "$module" | sed -n '$s/^importable$/&/p')"; \
    done

ENV MPLBACKEND="Agg"
WORKDIR /workspace
SHELL ["/bin/sh", "-c"]
