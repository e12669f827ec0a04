# reprokit sets REPROKIT_WHEELS and serves exactly the locked set. Without it, pip uses its own indexes. Before Python
# 3.12 an environment has setuptools; where no wheel brings another, it is the distribution's.
ARG REPROKIT_WHEELS=
# Sdists come last, without build isolation, so that they are built with the pinned setuptools. Debug information would
# name the random folder in which pip builds them.
# A wheel may need one of the sdists, which pip then builds earlier: what builds it comes first.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block wheels: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    if [ -n "$REPROKIT_WHEELS" ]; then \
        set -- --index-url "$REPROKIT_WHEELS" --trusted-host wheels.reprokit.invalid; \
    else \
        set --; \
    fi; \
    python3 -m pip install --no-cache-dir --disable-pip-version-check --no-deps "$@" setuptools==68.2.2 wheel==0.41.3; \
    CFLAGS=-g0 CXXFLAGS=-g0 python3 -m pip install --no-cache-dir --disable-pip-version-check --prefer-binary "$@" \
        setuptools==68.2.2 \
        wheel==0.41.3 \
        'numpy>=1.16'; \
    python3 -c 'import sys, importlib.util; sys.exit(sys.version_info < (3, 12) and not importlib.util.find_spec("setuptools"))' || \
        python3 -m pip install --no-cache-dir --disable-pip-version-check --no-index --no-deps /usr/share/python-wheels/setuptools-*.whl; \
    CFLAGS=-g0 CXXFLAGS=-g0 python3 -m pip install --no-cache-dir --disable-pip-version-check --no-build-isolation "$@" \
        GPUtil==1.4.0 \
        docopt==0.6.2; \
    set -- $(python3 -m pip show --disable-pip-version-check setuptools wheel GPUtil docopt | sed -n 's/^Version: //p'); \
    expect setuptools 68.2.2 "${1:-}"; shift; \
    expect wheel 0.41.3 "${1:-}"; shift; \
    expect GPUtil 1.4.0 "${1:-}"; shift; \
    expect docopt 0.6.2 "${1:-}"; shift; \
    python3 -m pip check --disable-pip-version-check
