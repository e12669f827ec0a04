# pitfall llvm-from-source: the distribution's packages need 0.5 GB and no hour of compiling.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block llvm: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    apt-get update; \
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends libllvm14; \
    rm -rf /var/lib/apt/lists/*; \
    expect llvm 14 "$(dpkg-query -W -f '${Version}' libllvm14 | sed 's/^[0-9]*://')"
