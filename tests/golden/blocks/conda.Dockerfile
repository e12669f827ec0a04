FROM base AS conda
ARG REPROKIT_APT_CONDA=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block conda: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_CONDA:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_CONDA ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends bzip2 curl; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    expect curl runnable "$(curl --version >&2 && echo runnable)"
# reprokit sets REPROKIT_CONDA and serves exactly the locked packages, linked for /opt/conda. Without it, micromamba
# resolves today's packages of the channels.
ARG REPROKIT_CONDA=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block conda: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    mkdir -p /opt/conda; \
    if [ -n "${REPROKIT_CONDA:-}" ]; then \
        curl -fsSL --retry 2 -o /tmp/environment.tar "${REPROKIT_CONDA}environment.tar"; \
        tar --no-same-owner -xf /tmp/environment.tar -C /opt/conda; rm /tmp/environment.tar; \
    else \
        machine="$(uname -m | sed 's/x86_64/64/')"; \
        curl -fsSL --retry 2 -o /tmp/micromamba.tar.bz2 "https://micro.mamba.pm/api/micromamba/linux-$machine/latest"; \
        tar --no-same-owner -xf /tmp/micromamba.tar.bz2 -C /tmp bin/micromamba; \
        /tmp/bin/micromamba create --yes --prefix /opt/conda --override-channels --channel conda-forge --channel pytorch numpy=1.19 mkl==2020.4 python=3.6.13=hffdb5ce_0_cpython; \
    fi; \
    found() { sed -n 's/^ *"version": *"\(.*\)",*$/\1/p' "/opt/conda/conda-meta/$1-$2"*.json | head -n 1; }; \
    expect numpy 1.19 "$(found numpy 1.19)"; \
    expect mkl 2020.4 "$(found mkl 2020.4)"; \
    expect python 3.6.13 "$(found python 3.6.13)"; \
    mkdir -p /product/opt; mv /opt/conda /product/opt; \
    cd /product; find . -mindepth 1 -type d | while IFS= read -r folder; do \
        [ ! -d "/$folder" ] || { chmod --reference="/$folder" "$folder"; chown --reference="/$folder" "$folder"; }; \
    done

FROM base AS with-conda
COPY --from=conda /product/ /
ENV PATH=/opt/conda/bin:${PATH}
