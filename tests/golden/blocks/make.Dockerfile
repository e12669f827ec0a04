FROM base AS make
ARG REPROKIT_APT_MAKE=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block make: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_MAKE:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_MAKE ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends make gcc-12 g++-12 libc6-dev libgomp1; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    for tool in gcc g++; do \
        for name in "$tool" "$(uname -m)-linux-gnu-$tool"; do ln -sf "/usr/bin/$tool-"12 "/usr/local/bin/$name"; done; \
    done; \
    ln -sf gcc /usr/local/bin/cc; ln -sf g++ /usr/local/bin/c++; \
    expect gcc 12 "$(c++ -dumpfullversion)"
ARG SIZE="large one"
COPY --from=git /opt/solver /opt/solver
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block make: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    mkdir -p /product/opt/solver/src; cd /opt/solver/src; \
    make -j "$(nproc)" 'CFLAGS=-O2 -g' all; \
    test -e bin/solver || find . -type f '(' -perm /111 -o -name '*.so*' -o -name '*.a' ')' ! -path '*/CMakeFiles/*' ! -path './.git/*' -printf 'reprokit: made %P\n' | head -n 50 >&2; \
    expect bin/solver built "$(test -e bin/solver && echo built)"; cp -a --parents bin/solver /product/opt/solver/src; \
    test -e /usr/local/lib/libsolver.so || find . -type f '(' -perm /111 -o -name '*.so*' -o -name '*.a' ')' ! -path '*/CMakeFiles/*' ! -path './.git/*' -printf 'reprokit: made %P\n' | head -n 50 >&2; \
    expect /usr/local/lib/libsolver.so built "$(test -e /usr/local/lib/libsolver.so && echo built)"; cp -a --parents /usr/local/lib/libsolver.so /product; \
    du -sh /product; \
    cd /product; find . -mindepth 1 -type d | while IFS= read -r folder; do \
        [ ! -d "/$folder" ] || { chmod --reference="/$folder" "$folder"; chown --reference="/$folder" "$folder"; }; \
    done

FROM with-git AS with-make
COPY --from=make /product/ /
RUN ldconfig
# pitfall build-ok-artifact-missing
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block make: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    cd /opt/solver/src; \
    expect bin/solver present "$(test -e bin/solver && echo present)"; \
    expect /usr/local/lib/libsolver.so present "$(test -e /usr/local/lib/libsolver.so && echo present)"; \
    expect 'libraries that its products do not find' 0 "$(find bin/solver /usr/local/lib/libsolver.so -type f '(' -name '*.so*' -o -perm /111 ')' -exec ldd {} + 2>/dev/null | grep -c 'not found')"
