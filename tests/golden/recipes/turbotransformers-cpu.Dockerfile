# turbotransformers, variant cpu
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

# torch and its dependencies only: the variant's own versions are installed over them, by the block wheels.
ARG REPROKIT_WHEELS_TORCH=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block torch: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    if [ -n "$REPROKIT_WHEELS_TORCH" ]; then \
        set -- --index-url "$REPROKIT_WHEELS_TORCH" --trusted-host wheels.reprokit.invalid; \
    else \
        set --; \
    fi; \
    printf '%s\n' 'numpy<2' 'setuptools<70' 'setuptools<82' > /tmp/bounds; set -- "$@" --constraint /tmp/bounds; \
    python3 -m pip install --no-cache-dir --disable-pip-version-check --prefer-binary "$@" torch==1.8.1; \
    python3 -m pip check --disable-pip-version-check
# pitfall cuda-mismatch: the wheel's own CUDA is tested.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block torch: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    expect torch 1.8.1 "$(python3 -c 'import torch; print(torch.__version__)')"; \
    expect 'CUDA of torch' 10.2 "$(python3 -c 'import torch; print(torch.version.cuda or "none")')"

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
# Sdists come last, without build isolation, so that they are built with the pinned setuptools. Debug information would
# name the random folder in which pip builds them.
# A wheel may need one of the sdists, which pip then builds earlier: what builds it comes first.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block wheels: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    if [ -n "$REPROKIT_WHEELS" ]; then \
        set -- --index-url "$REPROKIT_WHEELS" --trusted-host wheels.reprokit.invalid; \
    else \
        set --; \
    fi; \
    python3 -m pip install --no-cache-dir --disable-pip-version-check --no-deps "$@" setuptools==59.5.0 wheel==0.37.1; \
    CFLAGS=-g0 CXXFLAGS=-g0 python3 -m pip install --no-cache-dir --disable-pip-version-check --prefer-binary "$@" \
        torch==1.8.1 \
        mkl==2021.4.0 \
        mkl-include==2021.4.0 \
        numpy==1.19.5 \
        OpenNMT-py==1.2.0 \
        torchtext==0.4.0 \
        transformers==4.11.1 \
        huggingface-hub==0.0.19 \
        setuptools==59.5.0 \
        wheel==0.37.1; \
    python3 -c 'import sys, importlib.util; sys.exit(sys.version_info < (3, 12) and not importlib.util.find_spec("setuptools"))' || \
        python3 -m pip install --no-cache-dir --disable-pip-version-check --no-index --no-deps /usr/share/python-wheels/setuptools-*.whl; \
    CFLAGS=-g0 CXXFLAGS=-g0 python3 -m pip install --no-cache-dir --disable-pip-version-check --no-build-isolation "$@" \
        contexttimer==0.3.3 \
        docopt==0.6.2; \
    set -- $(python3 -m pip show --disable-pip-version-check torch mkl mkl-include numpy OpenNMT-py torchtext transformers huggingface-hub setuptools wheel contexttimer docopt | sed -n 's/^Version: //p'); \
    expect torch 1.8.1 "${1:-}"; shift; \
    expect mkl 2021.4.0 "${1:-}"; shift; \
    expect mkl-include 2021.4.0 "${1:-}"; shift; \
    expect numpy 1.19.5 "${1:-}"; shift; \
    expect OpenNMT-py 1.2.0 "${1:-}"; shift; \
    expect torchtext 0.4.0 "${1:-}"; shift; \
    expect transformers 4.11.1 "${1:-}"; shift; \
    expect huggingface-hub 0.0.19 "${1:-}"; shift; \
    expect setuptools 59.5.0 "${1:-}"; shift; \
    expect wheel 0.37.1 "${1:-}"; shift; \
    expect contexttimer 0.3.3 "${1:-}"; shift; \
    expect docopt 0.6.2 "${1:-}"; shift; \
    python3 -m pip check --disable-pip-version-check

# The wheels only have libmkl_*.so.1 in the environment, where linkers and loader do not search; linkers need another
# name too.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block mkl: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    root="$(python3 -c 'import sys; print(sys.prefix)')"; \
    ln -s "$root"/include/*.h /usr/local/include/; \
    ln -s "$root/lib/libiomp5.so" /usr/local/lib/; \
    for file in "$root"/lib/libmkl_*.so.1; do \
        name="${file##*/}"; ln -s "$file" "/usr/local/lib/$name"; ln -s "$name" "/usr/local/lib/${name%.1}"; \
    done; \
    ldconfig; \
    expect mkl.h present "$(test -s /usr/local/include/mkl.h && echo present)"
# MKL loads its kernels at the first call, and they need global symbols of the other libraries. Python does not load
# those globally, so MKL fails with `undefined symbol`. LD_PRELOAD loads them globally.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block mkl: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    export LD_PRELOAD="/usr/local/lib/libiomp5.so /usr/local/lib/libmkl_core.so.1 /usr/local/lib/libmkl_intel_thread.so.1 /usr/local/lib/libmkl_intel_lp64.so.1"; \
    expect 'scalar product by MKL' 25.0 "$(python3 -c 'import ctypes as c; ddot = c.CDLL(None).cblas_ddot; ddot.restype = c.c_double; v = (c.c_double * 2)(3, 4); print(ddot(2, v, 1, v, 1))')"

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
    mkdir -p /opt/turbotransformers; cd /opt/turbotransformers; \
    git init -q; git remote add origin https://github.com/Tencent/TurboTransformers; \
    git fetch -q --depth 1 origin 6c7cf638019a6aee4a19649b8d573230bfe8b9ee || git fetch -q --tags origin '+refs/heads/*:refs/remotes/origin/*'; \
    git checkout -q 6c7cf638019a6aee4a19649b8d573230bfe8b9ee; \
    expect 'commit of turbotransformers' 6c7cf638019a6aee4a19649b8d573230bfe8b9ee "$(git rev-parse HEAD)"; \
    checkout() { git -C 3rd submodule -q update --init "$@" -- abseil && git -C 3rd submodule -q update --init "$@" -- Catch2 && git -C 3rd submodule -q update --init "$@" -- dlpack && git -C 3rd submodule -q update --init "$@" -- FP16 && git -C 3rd submodule -q update --init "$@" -- loguru && git -C 3rd submodule -q update --init "$@" -- pybind11; }; \
    checkout --depth 1 || { git submodule -q deinit --all --force; rm -rf .git/modules; checkout; }; \
    expect 'submodule 3rd/abseil' 'at its commit' "$(git -C 3rd submodule status -- abseil | grep -q '^ ' && echo 'at its commit')"; \
    expect 'submodule 3rd/Catch2' 'at its commit' "$(git -C 3rd submodule status -- Catch2 | grep -q '^ ' && echo 'at its commit')"; \
    expect 'submodule 3rd/dlpack' 'at its commit' "$(git -C 3rd submodule status -- dlpack | grep -q '^ ' && echo 'at its commit')"; \
    expect 'submodule 3rd/FP16' 'at its commit' "$(git -C 3rd submodule status -- FP16 | grep -q '^ ' && echo 'at its commit')"; \
    expect 'submodule 3rd/loguru' 'at its commit' "$(git -C 3rd submodule status -- loguru | grep -q '^ ' && echo 'at its commit')"; \
    expect 'submodule 3rd/pybind11' 'at its commit' "$(git -C 3rd submodule status -- pybind11 | grep -q '^ ' && echo 'at its commit')"; \
    find . -name .git -prune -exec rm -rf {} +
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    export GIT_TERMINAL_PROMPT=0; \
    mkdir -p /opt/fetched/zlib; cd /opt/fetched/zlib; \
    git init -q; git remote add origin https://github.com/madler/zlib; \
    git fetch -q --depth 1 origin cacf7f1d4e3d44d871b605da3b647f07d718623f || git fetch -q --tags origin '+refs/heads/*:refs/remotes/origin/*'; \
    git checkout -q cacf7f1d4e3d44d871b605da3b647f07d718623f; \
    expect 'commit of zlib' cacf7f1d4e3d44d871b605da3b647f07d718623f "$(git rev-parse HEAD)"; \
    find . -name .git -prune -exec rm -rf {} +
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    export GIT_TERMINAL_PROMPT=0; \
    mkdir -p /opt/fetched/cnpy; cd /opt/fetched/cnpy; \
    git init -q; git remote add origin https://github.com/rogersce/cnpy; \
    git fetch -q --depth 1 origin e6536edb128bd0575bf07514d486eb67b5dfb04b || git fetch -q --tags origin '+refs/heads/*:refs/remotes/origin/*'; \
    git checkout -q e6536edb128bd0575bf07514d486eb67b5dfb04b; \
    expect 'commit of cnpy' e6536edb128bd0575bf07514d486eb67b5dfb04b "$(git rev-parse HEAD)"; \
    find . -name .git -prune -exec rm -rf {} +
# With the folders above them, as COPY would make those with the time of the build.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    mkdir /product; cd /; \
    for path in /opt/turbotransformers; do path="$(realpath "$path")"; cp -a --parents "${path#/}" /product; done

FROM image AS with-git
COPY --from=git /product/ /

FROM with-git AS cmake
ARG REPROKIT_APT_CMAKE=
COPY --from=git /opt/turbotransformers /opt/turbotransformers
# CMake 4 refuses projects that ask for less than 3.5. Nested builds use the links of the compiler, and Python builds
# use x86_64-linux-gnu-gcc.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cmake: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_CMAKE:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_CMAKE ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    touch /tmp/installing; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends cmake ninja-build gcc-10 g++-10 libc6-dev git python3.9-dev; \
    [ ! -x /usr/bin/python3.9 ] || find /usr/lib/python3* -name '*.cpython-39.pyc' -newer /tmp/installing | sed 's,__pycache__/\(.*\).cpython-39.pyc$,\1.py,' | python3.9 -m py_compile -; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    for tool in gcc g++; do \
        for name in "$tool" "$(uname -m)-linux-gnu-$tool"; do ln -sf "/usr/bin/$tool-"10 "/usr/local/bin/$name"; done; \
    done; \
    ln -sf gcc /usr/local/bin/cc; ln -sf g++ /usr/local/bin/c++; \
    cmake="$(cmake --version | sed -n 's/^cmake version //p')"; \
    expect cmake 3.18 "$cmake"; \
    expect 'cmake below 4, that is' 3 "$cmake"; \
    expect gcc 10 "$(c++ -dumpfullversion)"
# What the project clones during the build is already here, at its commit and with the requested tag, so that a moved
# tag changes nothing. Other addresses go below REPROKIT_GIT, where undeclared ones are refused by name.
ARG REPROKIT_GIT=https://
RUN git config --global url."$REPROKIT_GIT".insteadOf https:// && git config --global advice.detachedHead false
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cmake: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    export GIT_TERMINAL_PROMPT=0; \
    git init -q --bare /fetched/zlib.git; cd /fetched/zlib.git; \
    git fetch -q --depth 1 https://github.com/madler/zlib cacf7f1d4e3d44d871b605da3b647f07d718623f || git fetch -q https://github.com/madler/zlib '+refs/heads/*:refs/remotes/origin/*' '+refs/tags/*:refs/remotes/tags/*'; \
    git update-ref refs/heads/fetched cacf7f1d4e3d44d871b605da3b647f07d718623f; git symbolic-ref HEAD refs/heads/fetched; \
    git update-ref refs/tags/v1.2.11 cacf7f1d4e3d44d871b605da3b647f07d718623f; \
    git config --global url./fetched/zlib.insteadOf https://github.com/madler/zlib; \
    expect 'commit that a clone of zlib gives' cacf7f1d4e3d44d871b605da3b647f07d718623f "$(git ls-remote https://github.com/madler/zlib HEAD | cut -f 1)"
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cmake: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    export GIT_TERMINAL_PROMPT=0; \
    git init -q --bare /fetched/cnpy.git; cd /fetched/cnpy.git; \
    git fetch -q --depth 1 https://github.com/rogersce/cnpy e6536edb128bd0575bf07514d486eb67b5dfb04b || git fetch -q https://github.com/rogersce/cnpy '+refs/heads/*:refs/remotes/origin/*' '+refs/tags/*:refs/remotes/tags/*'; \
    git update-ref refs/heads/fetched e6536edb128bd0575bf07514d486eb67b5dfb04b; git symbolic-ref HEAD refs/heads/fetched; \
    git config --global url./fetched/cnpy.insteadOf https://github.com/rogersce/cnpy; \
    expect 'commit that a clone of cnpy gives' e6536edb128bd0575bf07514d486eb67b5dfb04b "$(git ls-remote https://github.com/rogersce/cnpy HEAD | cut -f 1)"
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cmake: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    mkdir -p /opt/turbotransformers/build /product/opt/turbotransformers; cd /opt/turbotransformers; \
    cmake -G Ninja -S . -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=/usr/bin/gcc-10 -DCMAKE_CXX_COMPILER=/usr/bin/g++-10 \
        -DWITH_GPU=OFF \
        -DBLAS_PROVIDER=mkl \
        -DMKLROOT=/usr/local \
        -DPYTHON_EXECUTABLE=/opt/venv/bin/python3; \
    ninja -C build; \
    test -e build/turbo_transformers/core/tt_core_test || find . -type f '(' -perm /111 -o -name '*.so*' -o -name '*.a' ')' ! -path '*/CMakeFiles/*' ! -path './.git/*' -printf 'reprokit: made %P\n' | head -n 50 >&2; \
    expect build/turbo_transformers/core/tt_core_test built "$(test -e build/turbo_transformers/core/tt_core_test && echo built)"; cp -a --parents build/turbo_transformers/core/tt_core_test /product/opt/turbotransformers; \
    test -e build/turbo_transformers/layers/kernels/tt_kernels_test || find . -type f '(' -perm /111 -o -name '*.so*' -o -name '*.a' ')' ! -path '*/CMakeFiles/*' ! -path './.git/*' -printf 'reprokit: made %P\n' | head -n 50 >&2; \
    expect build/turbo_transformers/layers/kernels/tt_kernels_test built "$(test -e build/turbo_transformers/layers/kernels/tt_kernels_test && echo built)"; cp -a --parents build/turbo_transformers/layers/kernels/tt_kernels_test /product/opt/turbotransformers; \
    packages="$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["platlib"])')"; \
    python3 -m pip install --no-index --no-deps --no-compile --no-cache-dir --disable-pip-version-check --target "/product$packages" build/turbo_transformers/python/pypackage/dist/turbo_transformers-0.6.0-cp39-cp39-linux_x86_64.whl; \
    python3 -m compileall -q -d "$packages" "/product$packages" || true; \
    du -sh /product; \
    cd /product; find . -mindepth 1 -type d | while IFS= read -r folder; do \
        [ ! -d "/$folder" ] || { chmod --reference="/$folder" "$folder"; chown --reference="/$folder" "$folder"; }; \
    done

FROM with-git AS with-cmake
COPY --from=cmake /product/ /
# pitfall build-ok-artifact-missing
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cmake: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    cd /opt/turbotransformers; \
    expect 'libraries that its products do not find' 0 "$(find build/turbo_transformers/core/tt_core_test build/turbo_transformers/layers/kernels/tt_kernels_test -type f '(' -name '*.so*' -o -perm /111 ')' -exec ldd {} + 2>/dev/null | grep -c 'not found')"

# pitfall missing-python-package
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block imports: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    for module in contexttimer docopt onmt transformers turbo_transformers; do \
        expect "$module" importable "$(python3 -c 'import sys, importlib; importlib.import_module(sys.argv[1]); print("importable")' "$module" | sed -n '$s/^importable$/&/p')"; \
    done

ENV LD_PRELOAD="/usr/local/lib/libiomp5.so:/usr/local/lib/libmkl_core.so.1:/usr/local/lib/libmkl_intel_thread.so.1:/usr/local/lib/libmkl_intel_lp64.so.1"
WORKDIR /workspace
SHELL ["/bin/sh", "-c"]
