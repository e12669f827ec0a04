FROM base AS image
ARG REPROKIT_APT_LLVM=
# pitfall llvm-from-source: the distribution's packages need 0.5 GB and save an hour of compiling.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block llvm: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_LLVM:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_LLVM ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends llvm-14-dev; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    expect llvm 14 "$(/usr/bin/llvm-config-14 --version)"
