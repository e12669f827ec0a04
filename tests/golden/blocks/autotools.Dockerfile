FROM base AS autotools
ARG REPROKIT_APT_AUTOTOOLS=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block autotools: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_AUTOTOOLS:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_AUTOTOOLS ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends make pkg-config gcc-12 g++-12 libc6-dev; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    for tool in gcc g++; do \
        for name in "$tool" "$(uname -m)-linux-gnu-$tool"; do ln -sf "/usr/bin/$tool-"12 "/usr/local/bin/$name"; done; \
    done; \
    ln -sf gcc /usr/local/bin/cc; ln -sf g++ /usr/local/bin/c++; \
    expect gcc 12 "$(c++ -dumpfullversion)"
COPY --from=git /opt/tool /opt/tool
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block autotools: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    mkdir -p /product/opt/tool; cd /opt/tool; \
    find . -exec touch -r configure {} +; \
    ./configure --prefix=/usr/local --disable-nls; \
    make -j "$(nproc)"; make install DESTDIR=/product; \
    expect /usr/local/bin/tool installed "$(test -e /product/usr/local/bin/tool && echo installed)"; \
    du -sh /product; \
    cd /product; find . -mindepth 1 -type d | while IFS= read -r folder; do \
        [ ! -d "/$folder" ] || { chmod --reference="/$folder" "$folder"; chown --reference="/$folder" "$folder"; }; \
    done

FROM with-git AS with-autotools
COPY --from=autotools /product/ /
RUN ldconfig
# pitfall build-ok-artifact-missing
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block autotools: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    cd /opt/tool; \
    expect /usr/local/bin/tool present "$(test -e /usr/local/bin/tool && echo present)"; \
    expect 'libraries that its products do not find' 0 "$(find /usr/local/bin/tool -type f '(' -name '*.so*' -o -perm /111 ')' -exec ldd {} + 2>/dev/null | grep -c 'not found')"

FROM base AS autotools-2
ARG REPROKIT_APT_AUTOTOOLS=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block autotools: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_AUTOTOOLS:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_AUTOTOOLS ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends make pkg-config gcc-12 g++-12 libc6-dev autoconf automake libtool; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    for tool in gcc g++; do \
        for name in "$tool" "$(uname -m)-linux-gnu-$tool"; do ln -sf "/usr/bin/$tool-"12 "/usr/local/bin/$name"; done; \
    done; \
    ln -sf gcc /usr/local/bin/cc; ln -sf g++ /usr/local/bin/c++; \
    expect gcc 12 "$(c++ -dumpfullversion)"
COPY --from=autotools /product/ /
RUN ldconfig
COPY --from=git /opt/other /opt/other
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block autotools: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    mkdir -p /product/opt/other; cd /opt/other; \
    autoreconf --force --install; \
    ./configure --prefix=/usr/local; \
    make -j "$(nproc)"; make install DESTDIR=/product; \
    test -e include/other.h || find . -type f '(' -perm /111 -o -name '*.so*' -o -name '*.a' ')' ! -path '*/CMakeFiles/*' ! -path './.git/*' -printf 'reprokit: made %P\n' | head -n 50 >&2; \
    expect include/other.h built "$(test -e include/other.h && echo built)"; cp -a --parents include/other.h /product/opt/other; \
    du -sh /product; \
    cd /product; find . -mindepth 1 -type d | while IFS= read -r folder; do \
        [ ! -d "/$folder" ] || { chmod --reference="/$folder" "$folder"; chown --reference="/$folder" "$folder"; }; \
    done

FROM with-autotools AS with-autotools-2
COPY --from=autotools-2 /product/ /
RUN ldconfig
# pitfall build-ok-artifact-missing
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block autotools: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    cd /opt/other; \
    expect include/other.h present "$(test -e include/other.h && echo present)"; \
    expect 'libraries that its products do not find' 0 "$(find include/other.h -type f '(' -name '*.so*' -o -perm /111 ')' -exec ldd {} + 2>/dev/null | grep -c 'not found')"
