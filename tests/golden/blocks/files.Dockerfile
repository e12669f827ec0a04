FROM base AS files
ARG REPROKIT_APT_FILES=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block files: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_FILES:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_FILES ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends curl unzip xz-utils; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    expect curl runnable "$(curl --version >&2 && echo runnable)"
# reprokit sets REPROKIT_FILES and serves the locked files by name. Without it, their own addresses are used. The image
# copies the results from /product, without the archives.
ARG REPROKIT_FILES=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block files: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    set -- 'https://example.org/model.bin?a=1&b=2'; \
    [ -z "${REPROKIT_FILES:-}" ] || set -- "$REPROKIT_FILES"model.bin; \
    found=""; for url in "$@"; do ! curl -fsSL --retry 2 -o /tmp/file "$url" || { found=downloaded; break; }; done; \
    expect model.bin downloaded "$found"; \
    product="/product$(realpath -m /opt/model/weights.bin)"; \
    mkdir -p "${product%/*}"; mv /tmp/file "$product"; \
    chmod -R a+rX "$product"; \
    cd /product; find . -mindepth 1 -type d | while IFS= read -r folder; do \
        [ ! -d "/$folder" ] || { chmod --reference="/$folder" "$folder"; chown --reference="/$folder" "$folder"; }; \
    done
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block files: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    set -- https://example.org/src.tar.xz http://mirror.example.org/src.tar.xz; \
    [ -z "${REPROKIT_FILES:-}" ] || set -- "$REPROKIT_FILES"src.tar.xz; \
    found=""; for url in "$@"; do ! curl -fsSL --retry 2 -o /tmp/file "$url" || { found=downloaded; break; }; done; \
    expect src.tar.xz downloaded "$found"; \
    product="/product$(realpath -m /opt/src)"; \
    expect 'sha256 of src.tar.xz' 0000000000000000000000000000000000000000000000000000000000000000 "$(sha256sum /tmp/file | cut -d ' ' -f 1)"; \
    mkdir -p "$product"; \
    tar --no-same-owner -xf /tmp/file -C "$product"; rm /tmp/file; \
    chmod -R a+rX "$product"; \
    cd /product; find . -mindepth 1 -type d | while IFS= read -r folder; do \
        [ ! -d "/$folder" ] || { chmod --reference="/$folder" "$folder"; chown --reference="/$folder" "$folder"; }; \
    done
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block files: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    set -- https://example.org/data.zip; \
    [ -z "${REPROKIT_FILES:-}" ] || set -- "$REPROKIT_FILES"data.zip; \
    found=""; for url in "$@"; do ! curl -fsSL --retry 2 -o /tmp/file "$url" || { found=downloaded; break; }; done; \
    expect data.zip downloaded "$found"; \
    product="/product$(realpath -m /opt/data)"; \
    mkdir -p "$product"; \
    unzip -q /tmp/file -d "$product"; rm /tmp/file; \
    chmod -R a+rX "$product"; \
    cd /product; find . -mindepth 1 -type d | while IFS= read -r folder; do \
        [ ! -d "/$folder" ] || { chmod --reference="/$folder" "$folder"; chown --reference="/$folder" "$folder"; }; \
    done

FROM base AS with-files
COPY --from=files /product/ /
