# faith, variant cpu
ARG BASE=debian:11
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
    touch /tmp/installing; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends ca-certificates; \
    [ ! -x /usr/bin/python3.9 ] || find /usr/lib/python3* -name '*.cpython-39.pyc' -newer /tmp/installing | sed 's,__pycache__/\(.*\).cpython-39.pyc$,\1.py,' | python3.9 -m py_compile -; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    expect distribution debian:11 "$(. /etc/os-release; echo "$ID:$VERSION_ID")"; \
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
    touch /tmp/installing; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends python3.9 python3.9-venv; \
    [ ! -x /usr/bin/python3.9 ] || find /usr/lib/python3* -name '*.cpython-39.pyc' -newer /tmp/installing | sed 's,__pycache__/\(.*\).cpython-39.pyc$,\1.py,' | python3.9 -m py_compile -; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    python3.9 -m venv /opt/venv; \
    [ ! -e /opt/venv/lib/*/site-packages/setuptools ] || /opt/venv/bin/python3 -m pip uninstall --yes --quiet --disable-pip-version-check setuptools; \
    expect 'first python on PATH' /opt/venv/bin/python3 "$(command -v python3)"; \
    expect python 3.9 "$(python3 -c 'import platform; print(platform.python_version())')"

ARG REPROKIT_APT=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block apt: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    touch /tmp/installing; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends libgomp1; \
    [ ! -x /usr/bin/python3.9 ] || find /usr/lib/python3* -name '*.cpython-39.pyc' -newer /tmp/installing | sed 's,__pycache__/\(.*\).cpython-39.pyc$,\1.py,' | python3.9 -m py_compile -; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    for package in libgomp1; do \
        expect "$package" installed "$(dpkg-query -W -f '${db:Status-Status}' "${package%%=*}")"; \
    done

# reprokit sets REPROKIT_WHEELS and serves exactly the locked set. Without it, pip uses its own indexes. Before Python
# 3.12 an environment has setuptools; where no wheel brings another, it is the distribution's.
ARG REPROKIT_WHEELS=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block wheels: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    if [ -n "$REPROKIT_WHEELS" ]; then \
        set -- --index-url "$REPROKIT_WHEELS" --trusted-host wheels.reprokit.invalid; \
    else \
        set --; \
    fi; \
    python3 -m pip install --no-cache-dir --disable-pip-version-check --prefer-binary "$@" \
        numpy==1.19.5 \
        scikit-learn==1.0.2 \
        scipy==1.5.4 \
        xgboost==1.5.2; \
    python3 -c 'import sys, importlib.util; sys.exit(sys.version_info < (3, 12) and not importlib.util.find_spec("setuptools"))' || \
        python3 -m pip install --no-cache-dir --disable-pip-version-check --no-index --no-deps /usr/share/python-wheels/setuptools-*.whl; \
    set -- $(python3 -m pip show --disable-pip-version-check numpy scikit-learn scipy xgboost | sed -n 's/^Version: //p'); \
    expect numpy 1.19.5 "${1:-}"; shift; \
    expect scikit-learn 1.0.2 "${1:-}"; shift; \
    expect scipy 1.5.4 "${1:-}"; shift; \
    expect xgboost 1.5.2 "${1:-}"; shift; \
    python3 -m pip check --disable-pip-version-check

FROM base AS git
ARG REPROKIT_APT_GIT=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_GIT:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_GIT ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    touch /tmp/installing; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends git; \
    [ ! -x /usr/bin/python3.9 ] || find /usr/lib/python3* -name '*.cpython-39.pyc' -newer /tmp/installing | sed 's,__pycache__/\(.*\).cpython-39.pyc$,\1.py,' | python3.9 -m py_compile -; \
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
    mkdir -p /home/boyuan/verification_tianqi; cd /home/boyuan/verification_tianqi; \
    git init -q; git remote add origin https://github.com/BoyuanFeng/Faith; \
    git fetch -q --depth 1 origin a5b894ff13014b02209e429933bd6ac027005fda || git fetch -q --tags origin '+refs/heads/*:refs/remotes/origin/*'; \
    git checkout -q a5b894ff13014b02209e429933bd6ac027005fda; \
    expect 'commit of faith' a5b894ff13014b02209e429933bd6ac027005fda "$(git rev-parse HEAD)"; \
    find . -name .git -prune -exec rm -rf {} +
# With the folders above them, as COPY would make those with the time of the build.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    mkdir /product; cd /; \
    for path in /home/boyuan/verification_tianqi; do path="$(realpath "$path")"; cp -a --parents "${path#/}" /product; done

FROM image AS with-git
COPY --from=git /product/ /
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    for path in /home/boyuan/verification_tianqi; do \
        expect "$path" present "$(test -e "$path" && echo present)"; \
    done
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    printf '%s\n' /home/boyuan/verification_tianqi/autotuner > "$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/sources.pth"; \
    for path in /home/boyuan/verification_tianqi/autotuner; do \
        expect "$path" 'on sys.path' "$(python3 -c 'import sys; print("on sys.path" if sys.argv[1] in sys.path else "not on sys.path")' "$path")"; \
    done

# pitfall missing-python-package
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block imports: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    for module in sklearn xgboost cost_model code_generator expert_knowledge_metafile; do \
        expect "$module" importable "$(python3 -c 'import sys, importlib; importlib.import_module(sys.argv[1]); print("importable")' "$module" | sed -n '$s/^importable$/&/p')"; \
    done

WORKDIR /workspace
SHELL ["/bin/sh", "-c"]
