FROM image AS cmake
ARG REPROKIT_APT_CMAKE=
# CMake 4 refuses projects that ask for less than 3.5. Nested builds use the links of the compiler, and Python builds
# use x86_64-linux-gnu-gcc.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cmake: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_CMAKE:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_CMAKE ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    touch /tmp/installing; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends cmake ninja-build gcc-10 g++-10 libc6-dev git libgomp1; \
    [ ! -x /usr/bin/python3.9 ] || find /usr/lib/python3* -name '*.cpython-39.pyc' -newer /tmp/installing | sed 's,__pycache__/\(.*\).cpython-39.pyc$,\1.py,' | python3.9 -m py_compile -; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    for tool in gcc g++; do \
        for name in "$tool" "$(uname -m)-linux-gnu-$tool"; do ln -sf "/usr/bin/$tool-"10 "/usr/local/bin/$name"; done; \
    done; \
    ln -sf gcc /usr/local/bin/cc; ln -sf g++ /usr/local/bin/c++; \
    cmake="$(cmake --version | sed -n 's/^cmake version //p')"; \
    expect cmake 3.18 "$cmake"; \
    expect 'cmake below 4, that is' 3 "$cmake"; \
    expect gcc 10 "$(c++ -dumpfullversion)"
COPY --from=git /opt/project /opt/project
# What the project clones during the build is already here, at its commit and with the requested tag, so that a moved
# tag changes nothing. Other addresses go below REPROKIT_GIT, where undeclared ones are refused by name.
ARG REPROKIT_GIT=https://
RUN git config --global url."$REPROKIT_GIT".insteadOf https:// && git config --global advice.detachedHead false
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cmake: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    export GIT_TERMINAL_PROMPT=0; \
    git init -q --bare /fetched/zlib.git; cd /fetched/zlib.git; \
    git fetch -q --depth 1 https://example.org/zlib 0123456789abcdef0123456789abcdef01234567 || git fetch -q https://example.org/zlib '+refs/heads/*:refs/remotes/origin/*' '+refs/tags/*:refs/remotes/tags/*'; \
    git update-ref refs/heads/fetched 0123456789abcdef0123456789abcdef01234567; git symbolic-ref HEAD refs/heads/fetched; \
    git update-ref refs/tags/v1.2.11 0123456789abcdef0123456789abcdef01234567; \
    git config --global url./fetched/zlib.insteadOf https://example.org/zlib; \
    expect 'commit that a clone of zlib gives' 0123456789abcdef0123456789abcdef01234567 "$(git ls-remote https://example.org/zlib HEAD | cut -f 1)"
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cmake: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    mkdir -p /opt/project/build /product/opt/project; cd /opt/project; \
    cmake -G Ninja -S . -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=/usr/bin/gcc-10 -DCMAKE_CXX_COMPILER=/usr/bin/g++-10 \
        -DOPENMP=ON \
        '-DFLAGS=-O2 -g'; \
    ninja -C build all tests; \
    test -e build/bin || find . -type f '(' -perm /111 -o -name '*.so*' -o -name '*.a' ')' ! -path '*/CMakeFiles/*' ! -path './.git/*' -printf 'reprokit: made %P\n' | head -n 50 >&2; \
    expect build/bin built "$(test -e build/bin && echo built)"; cp -a --parents build/bin /product/opt/project; \
    test -e include || find . -type f '(' -perm /111 -o -name '*.so*' -o -name '*.a' ')' ! -path '*/CMakeFiles/*' ! -path './.git/*' -printf 'reprokit: made %P\n' | head -n 50 >&2; \
    expect include built "$(test -e include && echo built)"; cp -a --parents include /product/opt/project; \
    packages="$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["platlib"])')"; \
    python3 -m pip install --no-index --no-deps --no-compile --no-cache-dir --disable-pip-version-check --target "/product$packages" build/dist/project-1.0-py3-none-any.whl; \
    python3 -m compileall -q -d "$packages" "/product$packages" || true; \
    du -sh /product; \
    cd /product; find . -mindepth 1 -type d | while IFS= read -r folder; do \
        [ ! -d "/$folder" ] || { chmod --reference="/$folder" "$folder"; chown --reference="/$folder" "$folder"; }; \
    done

FROM with-git AS with-cmake
COPY --from=cmake /product/ /
# pitfall build-ok-artifact-missing
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cmake: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    cd /opt/project; \
    expect 'libraries that its products do not find' 0 "$(find build/bin include -type f '(' -name '*.so*' -o -perm /111 ')' -exec ldd {} + 2>/dev/null | grep -c 'not found')"
