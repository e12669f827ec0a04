# reprokit sets REPROKIT_WHEELS and serves exactly the locked set. Without it, pip uses its own indexes. Before Python
# 3.12 an environment has setuptools; where no wheel brings another, it is the distribution's.
ARG REPROKIT_WHEELS=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block wheels: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    if [ -n "$REPROKIT_WHEELS" ]; then \
        set -- --index-url "$REPROKIT_WHEELS" --trusted-host wheels.reprokit.invalid; \
    else \
        set -- --extra-index-url https://example.org/simple --find-links https://example.org/links.html; \
    fi; \
    python3 -m pip install --no-cache-dir --disable-pip-version-check --prefer-binary "$@" \
        numpy==1.26.4 \
        h5py==3.10.0; \
    python3 -c 'import sys, importlib.util; sys.exit(sys.version_info < (3, 12) and not importlib.util.find_spec("setuptools"))' || \
        python3 -m pip install --no-cache-dir --disable-pip-version-check --no-index --no-deps /usr/share/python-wheels/setuptools-*.whl; \
    set -- $(python3 -m pip show --disable-pip-version-check numpy h5py | sed -n 's/^Version: //p'); \
    expect numpy 1.26.4 "${1:-}"; shift; \
    expect h5py 3.10.0 "${1:-}"; shift; \
    python3 -m pip check --disable-pip-version-check
