# taco, variant as-published
ARG BASE=debian:13
ARG REPROKIT_GIT=https://
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
    expect distribution debian:13 "$(. /etc/os-release; echo "$ID:$VERSION_ID")"; \
    expect certificates present "$(test -s /etc/ssl/certs/ca-certificates.crt && echo present)"

FROM base AS git
ARG REPROKIT_APT
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends git; \
    apt-get clean; rm -rf /var/lib/apt/lists/* /tmp/locked.list; \
    expect git runnable "$(git --version >&2 && echo runnable)"
# Every https:// address is fetched below REPROKIT_GIT, submodules too. It is https:// itself unless reprokit serves the
# locked commits.
ARG REPROKIT_GIT
RUN git config --global url."$REPROKIT_GIT".insteadOf https:// && git config --global advice.detachedHead false
# A commit is fetched by its ID, or with the complete history if the server refuses that. Submodules must be at the
# commits of the tree (pitfall submodule-missing).
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    export GIT_TERMINAL_PROMPT=0; \
    mkdir -p /opt/taco; cd /opt/taco; \
    git init -q; git remote add origin https://github.com/tensor-compiler/taco; \
    git fetch -q --depth 1 origin 2b8ece4c230a5f0f0a74bc6f48e28edfb6c1c95e || git fetch -q --tags origin '+refs/heads/*:refs/remotes/origin/*'; \
    git checkout -q 2b8ece4c230a5f0f0a74bc6f48e28edfb6c1c95e; \
    expect 'commit of taco' 2b8ece4c230a5f0f0a74bc6f48e28edfb6c1c95e "$(git rev-parse HEAD)"; \
    git submodule -q update --init --recursive --depth 1 || { \
        git submodule -q deinit --all --force; rm -rf .git/modules; git submodule -q update --init --recursive; \
    }; \
    expect 'submodules away from their commits' 0 "$(git submodule status --recursive | grep -c '^[^ ]')"; \
    find . -name .git -prune -exec rm -rf {} +

FROM base AS image
ARG REPROKIT_APT

RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block apt: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends g++ gcc libc6-dev; \
    apt-get clean; rm -rf /var/lib/apt/lists/* /tmp/locked.list; \
    for package in g++ gcc libc6-dev; do \
        expect "$package" installed "$(dpkg-query -W -f '${db:Status-Status}' "${package%%=*}")"; \
    done

COPY --from=git /opt/taco /opt/taco

FROM image AS cmake
ARG REPROKIT_APT
COPY --from=git /opt/taco /opt/taco
# CMake 4 refuses projects that ask for less than 3.5. Nested builds use the links of the compiler, and Python builds
# use x86_64-linux-gnu-gcc.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cmake: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends cmake ninja-build gcc-14 g++-14 libc6-dev; \
    apt-get clean; rm -rf /var/lib/apt/lists/* /tmp/locked.list; \
    for tool in gcc g++; do \
        for name in "$tool" "$(uname -m)-linux-gnu-$tool"; do ln -sf "/usr/bin/$tool-"14 "/usr/local/bin/$name"; done; \
    done; \
    ln -sf gcc /usr/local/bin/cc; ln -sf g++ /usr/local/bin/c++; \
    cmake="$(cmake --version | sed -n 's/^cmake version //p')"; \
    expect cmake 4.1 "$cmake"; \
    expect 'cmake below 4, that is' 3 "$cmake"; \
    expect gcc 14 "$(c++ -dumpfullversion)"
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cmake: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    mkdir -p /opt/taco/build /product/opt/taco; cd /opt/taco; \
    cmake -G Ninja -S . -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=/usr/bin/gcc-14 -DCMAKE_CXX_COMPILER=/usr/bin/g++-14 \
        -DOPENMP=ON \
        -DGIT_SUBMODULE=OFF; \
    ninja -C build; \
    expect build/bin built "$(test -e build/bin && echo built)"; cp -a --parents build/bin /product/opt/taco; \
    expect build/lib built "$(test -e build/lib && echo built)"; cp -a --parents build/lib /product/opt/taco; \
    du -sh /product

FROM image AS with-cmake
ARG REPROKIT_APT
COPY --from=cmake /product/ /
# pitfall build-ok-artifact-missing
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cmake: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    cd /opt/taco; \
    expect 'libraries that its products do not find' 0 "$(find build/bin build/lib -type f '(' -name '*.so*' -o -perm /111 ')' -exec ldd {} + 2>/dev/null | grep -c 'not found')"

WORKDIR /workspace
