# reprokit sets REPROKIT_WHEELS and serves exactly the locked set. Without it, pip uses its own indexes.
ARG REPROKIT_WHEELS
# Sdists come last, without build isolation, so that they are built with the pinned setuptools.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block wheels: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    if [ -n "${REPROKIT_WHEELS:-}" ]; then \
        set -- --index-url "$REPROKIT_WHEELS" --trusted-host wheels.reprokit.invalid; \
    else \
        set --; \
    fi; \
    python3 -m pip install --no-cache-dir --disable-pip-version-check --prefer-binary "$@" \
        setuptools==68.2.2 \
        wheel==0.41.3 \
        'numpy>=1.16'; \
    python3 -m pip install --no-cache-dir --disable-pip-version-check --no-build-isolation "$@" \
        GPUtil==1.4.0 \
        docopt==0.6.2; \
    found() { python3 -m pip show --disable-pip-version-check "$1" | sed -n 's/^Version: //p'; }; \
    expect setuptools 68.2.2 "$(found setuptools)"; \
    expect wheel 0.41.3 "$(found wheel)"; \
    expect GPUtil 1.4.0 "$(found GPUtil)"; \
    expect docopt 0.6.2 "$(found docopt)"; \
    python3 -m pip check --disable-pip-version-check
