FROM base AS run
ARG REPROKIT_APT_RUN=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block run: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_RUN:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_RUN ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends gawk; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    for package in gawk; do \
        expect "$package" installed "$(dpkg-query -W -f '${db:Status-Status}' "${package%%=*}")"; \
    done
COPY --from=git /product/ /
ARG JOBS="2"
COPY --from=git /opt/artifact /opt/artifact
RUN set -eu; \
    mkdir -p /opt/artifact; cd /opt/artifact; \
    bash -euo pipefail -c './build.sh --jobs $JOBS | tee log'
RUN set -eu; \
    mkdir -p /opt/artifact; cd /opt/artifact; \
    bash -euo pipefail -c 'test -s out/model'
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block run: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    mkdir -p /product/opt/artifact; cd /opt/artifact; \
    test -e out || find . -type f '(' -perm /111 -o -name '*.so*' -o -name '*.a' ')' ! -path '*/CMakeFiles/*' ! -path './.git/*' -printf 'reprokit: made %P\n' | head -n 50 >&2; \
    expect out built "$(test -e out && echo built)"; cp -a --parents out /product/opt/artifact; \
    du -sh /product; \
    cd /product; find . -mindepth 1 -type d | while IFS= read -r folder; do \
        [ ! -d "/$folder" ] || { chmod --reference="/$folder" "$folder"; chown --reference="/$folder" "$folder"; }; \
    done

FROM with-git AS with-run
COPY --from=run /product/ /
RUN ldconfig
# pitfall build-ok-artifact-missing
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block run: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    cd /opt/artifact; \
    expect out present "$(test -e out && echo present)"; \
    expect 'libraries that its products do not find' 0 "$(find out -type f '(' -name '*.so*' -o -perm /111 ')' -exec ldd {} + 2>/dev/null | grep -c 'not found')"

ARG JOBS="2"
RUN set -eu; \
    mkdir -p /; cd /; \
    bash -euo pipefail -c 'echo 1 > /opt/ready'
RUN ldconfig
# pitfall build-ok-artifact-missing
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block run: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    cd /; \
    expect /opt/ready present "$(test -e /opt/ready && echo present)"; \
    expect 'libraries that its products do not find' 0 "$(find /opt/ready -type f '(' -name '*.so*' -o -perm /111 ')' -exec ldd {} + 2>/dev/null | grep -c 'not found')"
