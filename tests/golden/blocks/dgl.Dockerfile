# Without it DGL asks for a backend on its first import and writes the answer into the home folder.
ENV DGLBACKEND=pytorch
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block dgl: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    expect dgl 0.9.1 "$(python3 -c 'import dgl; print(dgl.__version__)')"
