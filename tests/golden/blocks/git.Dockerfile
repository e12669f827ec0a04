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
    mkdir -p /opt/artifact; cd /opt/artifact; \
    git init -q; git remote add origin https://example.org/artifact; \
    git fetch -q --depth 1 origin 0123456789abcdef0123456789abcdef01234567 || git fetch -q --tags origin '+refs/heads/*:refs/remotes/origin/*'; \
    git checkout -q 0123456789abcdef0123456789abcdef01234567; \
    expect 'commit of artifact' 0123456789abcdef0123456789abcdef01234567 "$(git rev-parse HEAD)"; \
    find . -name .git -prune -exec rm -rf {} +; \
    chmod -R a+rwX .
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    export GIT_TERMINAL_PROMPT=0; \
    mkdir -p /opt/tvm; cd /opt/tvm; \
    git init -q; git remote add origin https://example.org/tvm; \
    git fetch -q --depth 1 origin 0123456789abcdef0123456789abcdef01234567 || git fetch -q --tags origin '+refs/heads/*:refs/remotes/origin/*'; \
    git checkout -q 0123456789abcdef0123456789abcdef01234567; \
    expect 'commit of tvm' 0123456789abcdef0123456789abcdef01234567 "$(git rev-parse HEAD)"; \
    git submodule -q update --init --recursive --depth 1 || { \
        git submodule -q deinit --all --force; rm -rf .git/modules; git submodule -q update --init --recursive; \
    }; \
    expect 'submodules away from their commits' 0 "$(git submodule status --recursive | grep -c '^[^ ]')"; \
    find . -name .git -prune -exec rm -rf {} +
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    export GIT_TERMINAL_PROMPT=0; \
    mkdir -p /opt/cutlass; cd /opt/cutlass; \
    git init -q; git remote add origin https://example.org/cutlass; \
    git fetch -q --depth 1 origin 0123456789abcdef0123456789abcdef01234567 || git fetch -q --tags origin '+refs/heads/*:refs/remotes/origin/*'; \
    git checkout -q 0123456789abcdef0123456789abcdef01234567 -- CMakeLists.txt include; \
    expect 'commit of cutlass' 0123456789abcdef0123456789abcdef01234567 "$(git rev-parse '0123456789abcdef0123456789abcdef01234567^{commit}')"; \
    for path in CMakeLists.txt include; do expect "$path" present "$(test -e "$path" && echo present)"; done; \
    find . -name .git -prune -exec rm -rf {} +
# With the folders above them, as COPY would make those with the time of the build.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    mkdir /product; cd /; \
    for path in /opt/artifact /opt/cutlass; do path="$(realpath "$path")"; cp -a --parents "${path#/}" /product; done

FROM image AS with-git
COPY --from=git /product/ /
RUN printf '%s\n' /opt/artifact/python > "$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/sources.pth"
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    for path in /opt/artifact /opt/cutlass; do \
        expect "$path" present "$(test -e "$path" && echo present)"; \
    done
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    for path in /opt/artifact/python; do \
        expect "$path" 'on sys.path' "$(python3 -c 'import sys; print("on sys.path" if sys.argv[1] in sys.path else "not on sys.path")' "$path")"; \
    done
