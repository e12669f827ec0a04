FROM image AS extension_package
ARG REPROKIT_APT_EXTENSION_PACKAGE=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block extension_package: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_EXTENSION_PACKAGE:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_EXTENSION_PACKAGE ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends gcc-12 g++-12 libc6-dev python3.11-dev ninja-build; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    for tool in gcc g++; do \
        for name in "$tool" "$(uname -m)-linux-gnu-$tool"; do ln -sf "/usr/bin/$tool-"12 "/usr/local/bin/$name"; done; \
    done; \
    ln -sf gcc /usr/local/bin/cc; ln -sf g++ /usr/local/bin/c++; \
    expect gcc 12 "$(c++ -dumpfullversion)"; \
    for module in setuptools wheel; do expect "$module" importable "$(python3 -c 'import sys, importlib; importlib.import_module(sys.argv[1]); print("importable")' "$module")"; done
COPY --from=git /opt/package /opt/package
# Nothing is fetched: the Python packages for the build are in the image, at their locked versions. With build
# isolation, pip would build against the newest torch.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block extension_package: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    export CC=/usr/local/bin/gcc CXX=/usr/local/bin/g++ AR=gcc-ar-12; \
    cd /opt/package; \
    find . > /before_build; \
    python3 -m pip wheel --no-index --no-deps --no-build-isolation --no-cache-dir --disable-pip-version-check --wheel-dir /wheel .; \
    packages="$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["platlib"])')"; \
    python3 -m pip install --no-index --no-deps --no-compile --no-cache-dir --disable-pip-version-check --target "/product$packages" /wheel/*.whl; \
    python3 -m compileall -q -d "$packages" "/product$packages" || true; \
    find "/product$packages" -type f ! -path '*/__pycache__/*' -printf '%P\n' | while read -r file; do \
        for folder in . ./src; do \
            at="$folder/$file"; \
            grep -qxF "${at%/*}" /before_build && ! grep -qxF "$at" /before_build || continue; \
            mkdir -p "/product$PWD/${at%/*}"; ln -s "$packages/$file" "/product$PWD/$at"; \
        done; \
    done; \
    du -sh /product; \
    cd /product; find . -mindepth 1 -type d | while IFS= read -r folder; do \
        [ ! -d "/$folder" ] || { chmod --reference="/$folder" "$folder"; chown --reference="/$folder" "$folder"; }; \
    done

FROM with-git AS with-extension_package
COPY --from=extension_package /product/ /
# pitfall build-ok-artifact-missing. The block imports tests whether it can be imported.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block extension_package: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    found="$(python3 -m pip show --disable-pip-version-check Some-Package | sed -n 's/^Version: //p')"; \
    expect Some-Package "${found:-installed}" "$found"
