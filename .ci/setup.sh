#!/bin/sh
# Readies a bare Debian or Ubuntu for `make demo`, `make test`, `make lint` and `make attention`: a virtual environment
# with the project in it and, where no engine answers, Docker Engine and mmdebstrap from the distribution. Running it
# again is cheap.
#
#   sh .ci/setup.sh demo|test|test-fast|lint|attention
#
#   REPROKIT_NO_INSTALL=1   change nothing, only say what is missing
#   PYTHON=/path/python3    the interpreter for .venv (default: the first of python3, python3.14 ... python3.10 that fits)
#
# Exit codes are the tool's own: 2 wrong usage, 3 this machine cannot be readied, 4 packages could not be fetched.
set -eu

say() { printf 'setup: %s\n' "$*"; }

die() { # CODE WHAT [REMEDY]
    printf 'error: %s\n' "$2" >&2
    [ -z "${3-}" ] || printf 'hint: %s\n' "$3" >&2
    exit "$1"
}

has() { command -v "$1" >/dev/null 2>&1; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif has sudo; then
        sudo "$@"
    else
        die 3 "root is needed for: $*" "run this once as root, or install sudo"
    fi
}

can_be_root() { [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null; }

# --- what is here ---------------------------------------------------------------------------------------------------

fits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; }

find_python() {
    for candidate in ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
        if has "$candidate" && fits "$candidate"; then
            python=$candidate
            return
        fi
        [ -z "${PYTHON-}" ] || die 3 "PYTHON=$PYTHON is not a Python 3.10 or newer"
    done
    found=$(python3 -V 2>/dev/null) || found="no python3"
    die 3 "Python 3.10 or newer is needed, and here is $found" \
        "Debian 12 and Ubuntu 22.04 have one; elsewhere install one and set PYTHON=/path/to/python3.x"
}

# Interrupted while pip is unpacked, an environment holds half of it.
venv_works() { [ -e "$venv/.setup-made" ] && fits "$venv/bin/python"; }

# What the environment was made from. The folder is part of it: scripts in a moved environment point at the old place.
venv_key() {
    { cat pyproject.toml && "$venv/bin/python" -VV && printf '%s\n' "$extras" "$root"; } | sha256sum | cut -d' ' -f1
}

venv_current() { venv_works && [ "$(cat "$venv/.setup-$target" 2>/dev/null)" = "$(venv_key)" ]; }

# Prints answers, denied or absent. It asks the socket itself: Debian 13 has the engine's client in a package of its own.
engine_state() {
    "$python" - "$socket" <<'PY'
import socket, sys

with socket.socket(socket.AF_UNIX) as client:
    client.settimeout(10)
    try:
        client.connect(sys.argv[1])
        client.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
        print("answers" if b" 200 " in client.recv(4096) else "absent")
    except PermissionError:
        print("denied")
    except OSError:
        print("absent")
PY
}

# Fills `packages` with the Debian packages that this target lacks. Recommended packages are left out when installing,
# so those that matter are named here.
find_missing() {
    packages=""
    release=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
    if ! venv_works && ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        packages="$packages $release-venv"
    fi
    if [ "$target" = test ]; then
        has g++ || packages="$packages g++"
        has git || packages="$packages git"
        "$python" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' ||
            packages="$packages $release-dev"
        if [ "$(uname -m)" = x86_64 ]; then
            # The extension's CPU kernel is compiled for arm64, and run.
            has aarch64-linux-gnu-g++ || packages="$packages g++-aarch64-linux-gnu"
            has qemu-aarch64 || packages="$packages qemu-user"
        fi
        # Tests push to a real registry, and start an engine without root.
        has docker-registry || packages="$packages docker-registry"
        has rootlesskit || packages="$packages rootlesskit"
        has zsh || packages="$packages zsh"
        has fish || packages="$packages fish"
        # Bundles are loaded into podman, too.
        has podman || packages="$packages podman crun"
        has newuidmap || packages="$packages uidmap"
        # Tests send images to nodes of their own, each with its network, sshd and engine.
        has ip || packages="$packages iproute2"
        has ssh || packages="$packages openssh-client"
        has zstd || packages="$packages zstd"
        # What bundles are is read by others.
        has skopeo || packages="$packages skopeo"
        has sqfstar || packages="$packages squashfs-tools"
        has csh || packages="$packages tcsh"
        # The report is opened in a browser. Ubuntu's package is a link to a snap, which needs systemd.
        has chromium || has google-chrome || packages="$packages chromium"
        # It starts a service, which is for its owner to decide on a machine that stays; those tests are skipped there.
        [ -z "${CI-}" ] || [ -x /usr/sbin/sshd ] || packages="$packages openssh-server"
    fi
    [ "$needs_engine" = yes ] || return 0
    if [ "$engine" = absent ] && ! has dockerd; then
        packages="$packages docker.io docker-cli ca-certificates"
        # With AppArmor in the kernel and no apparmor_parser, dockerd starts and then no container does.
        grep -qs Y /sys/module/apparmor/parameters/enabled && ! has apparmor_parser && packages="$packages apparmor"
        [ -d /run/systemd/system ] || [ -n "$(ls -A /sys/fs/cgroup 2>/dev/null)" ] || packages="$packages cgroupfs-mount"
        # For open_socket.
        [ "$(id -u)" -eq 0 ] || has setfacl || packages="$packages acl"
    fi
    bootstrap=""
    # Debian's bases on Ubuntu and the reverse need the other's keys, gpg to choose them, and the releases' names.
    has mmdebstrap || bootstrap=" mmdebstrap gpg distro-info-data debian-archive-keyring ubuntu-keyring"
    [ -n "$bootstrap" ] || return 0
    # On a cluster's node an engine may answer to users who are not root; they can go on with a registry alone.
    if [ "$engine" = absent ] || { has apt-get && can_be_root; }; then
        packages="$packages$bootstrap"
    else
        say "base images come from a registry only: bootstrapping them needs$bootstrap"
    fi
}

# --- packages -------------------------------------------------------------------------------------------------------

apt() { # ARGUMENTS: apt-get's; its output goes to $log
    as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l \
        apt-get -q -y -o DPkg::Lock::Timeout=300 "$@" </dev/null >>"$log" 2>&1
}

# Not every release has every package: docker-cli is part of docker.io before Debian 13.
optional() { case $1 in docker-cli | cgroupfs-mount | ubuntu-keyring) ;; *) return 1 ;; esac }

known() { LC_ALL=C apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [^(]'; }

choose_packages() {
    chosen=""
    for package in $packages; do
        if ! optional "$package" || known "$package"; then
            chosen="$chosen $package"
        fi
    done
}

install_packages() {
    [ -n "$packages" ] || return 0
    has apt-get || die 3 "missing here:$packages (names as in Debian)" \
        "this script installs on Debian and Ubuntu only; install what these give with your own package manager"
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    fresh=no
    for package in $packages; do
        optional "$package" || known "$package" || fresh=needed
    done
    if [ "$fresh" = needed ]; then
        update_lists
    fi
    choose_packages
    say "installing with apt-get:$chosen"
    # shellcheck disable=SC2086  # a list of package names
    if ! apt install --no-install-recommends $chosen; then
        # An install that was interrupted, or lists that name versions which are gone: both are mended by this.
        as_root dpkg --configure -a </dev/null >>"$log" 2>&1 || true
        [ "$fresh" = yes ] || update_lists
        # shellcheck disable=SC2086
        apt install --no-install-recommends $chosen || apt_failed "apt-get could not install:$chosen"
    fi
}

update_lists() {
    say "refreshing the package lists"
    apt update || apt_failed "apt-get update failed"
    fresh=yes
}

apt_failed() {
    tail -n 15 "$log" >&2
    die 4 "$1" "the lines above are apt-get's own; on Ubuntu mmdebstrap and docker.io are in 'universe'"
}

# --- the engine -----------------------------------------------------------------------------------------------------

start_engine() {
    [ "$engine" = absent ] || return 0
    engine=$(engine_state) # the package starts it where systemd runs
    if [ "$engine" != absent ]; then
        say "Docker Engine answers at $socket"
        return 0
    elif [ -d /run/systemd/system ]; then
        say "starting Docker Engine with systemd"
        as_root systemctl start docker </dev/null || engine_failed
    elif pidof dockerd >/dev/null 2>&1; then
        say "dockerd runs already; waiting for it"
    else
        say "starting Docker Engine by itself (no systemd here); its log: $engine_log"
        [ -n "$(ls -A /sys/fs/cgroup 2>/dev/null)" ] || ! has cgroupfs-mount || as_root cgroupfs-mount || true
        mkdir -p "${engine_log%/*}"
        : >"$engine_log"
        # A pid file outlives a killed process, and when its number is in use again (a zombie's is) the next dockerd
        # refuses to start, or waits 15 s in vain for that containerd.
        as_root rm -f /var/run/docker.pid
        pidof containerd >/dev/null 2>&1 || as_root rm -f /var/run/docker/containerd/containerd.pid
        # In a session of its own, so that Ctrl-C spares it; without our output, which a pipe's reader would wait for,
        # and without 9, this script's lock.
        # shellcheck disable=SC2016
        as_root setsid -f sh -c 'exec dockerd >>"$1" 2>&1 </dev/null 9>&-' sh "$engine_log"
    fi
    waited=0
    while [ "$waited" -lt 60 ]; do
        engine=$(engine_state)
        if [ "$engine" != absent ]; then
            say "Docker Engine answers at $socket"
            return 0
        fi
        sleep 1
        waited=$((waited + 1))
        [ -d /run/systemd/system ] || [ "$waited" -lt 3 ] || pidof dockerd >/dev/null 2>&1 || break
    done
    engine_failed
}

engine_failed() {
    if [ -d /run/systemd/system ]; then
        as_root journalctl -u docker -n 50 --no-pager
    else
        cat "$engine_log"
    fi | grep -v level=info | tail -n 15 >&2 || true
    die 3 "Docker Engine did not start" "the lines above are its own log; a container needs --privileged to run an engine"
}

# A user who was not in the group docker when they logged in is refused by the socket until they log in again. An access
# list on the socket bridges that time; it goes when the engine restarts.
open_socket() {
    [ "$engine" = denied ] || return 0
    user=$(id -un)
    if [ "$installed_engine" = yes ]; then
        say "adding $user to the group docker, which is as good as root here (undo: sudo gpasswd -d $user docker)"
        as_root usermod -aG docker "$user"
    elif ! id -nG "$user" | tr ' ' '\n' | grep -qx docker; then
        die 3 "an engine runs, but $user may not talk to it ($socket)" \
            "sudo usermod -aG docker $user, then log in again; members of that group are as good as root"
    fi
    has setfacl || { packages=acl && install_packages; }
    as_root setfacl -m "u:$user:rw" "$socket"
    say "opened $socket to $user until the next login"
}

# --- the virtual environment ----------------------------------------------------------------------------------------

# pip warns about the user's own settings at each call, for example about a folder that does not exist.
pip_install() {
    errors=$(mktemp)
    status=0
    "$venv/bin/python" -m pip install -q --disable-pip-version-check "$@" </dev/null 2>"$errors" || status=$?
    [ "$status" -eq 0 ] || cat "$errors" >&2
    rm -f "$errors"
    return "$status"
}

# PyPI's torch for Linux brings gigabytes of CUDA, which no test on the host needs. So: the CPU build if the user's own
# pip settings have it, then PyTorch's index of CPU builds, and only then what `pip install .[extension]` takes.
install_torch() {
    version=$(sed -n 's/.*"torch==\([0-9.]*\)".*/\1/p' pyproject.toml)
    here=$("$venv/bin/python" -c 'from importlib.metadata import version; print(version("torch"))' 2>/dev/null) || here=""
    case $here in "$version" | "$version"+*) return 0 ;; esac
    say "installing torch $version (CPU build, about 200 MB)"
    pip_install "torch==$version+cpu" 2>/dev/null ||
        pip_install --retries 1 --timeout 15 --extra-index-url https://download.pytorch.org/whl/cpu \
            "torch==$version+cpu" 2>/dev/null ||
        say "no CPU build of torch $version is to be had here; the plain one brings CUDA and is several GB"
}

# What the tests need to compile the CUDA kernels and to read their machine code: 13 MB, and 100 MB more where the machine
# has no CUDA toolkit. Without dependencies, since CUTLASS's headers have none, and its Python package names scipy.
install_cuda_tools() {
    tools="nvidia-cutlass==4.2.0.0 nvidia-cuda-cuobjdump==13.5.37 nvidia-cuda-nvdisasm==13.5.37"
    has nvcc || [ -x /usr/local/cuda/bin/nvcc ] || tools="$tools nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88
        nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85"
    say "installing CUDA's compiler tools"
    # shellcheck disable=SC2086  # a list of package names
    pip_install --no-deps $tools 2>/dev/null || say "they cannot be installed: the tests that compile CUDA will skip"
}

make_venv() {
    if venv_current; then
        say ".venv is up to date"
        return 0
    fi
    if ! venv_works; then
        say "making .venv with $("$python" -V)"
        "$python" -m venv "$venv" || die 3 "python could not make a virtual environment ($venv)" "rm -r '$venv', then again"
        : >"$venv/.setup-made"
    fi
    case $extras in *extension*) install_torch ;; esac
    say "installing the project${extras:+ with [$extras]} into .venv"
    pip_install -e ".${extras:+[$extras]}" || die 4 "pip could not install the project" "the lines above are pip's own"
    [ "$target" != test ] || install_cuda_tools
    venv_key >"$venv/.setup-$target"
}

# --- in order -------------------------------------------------------------------------------------------------------

target=${1-}
case $target in
    demo) extras="import,results" needs_engine=yes ;;
    test) extras="test,extension,import" needs_engine=yes ;;
    test-fast) extras="test,import" needs_engine=no ;;
    lint) extras="dev,import" needs_engine=no ;;
    attention) extras="extension,results" needs_engine=no ;;
    *) die 2 "unknown target '$target'" "sh .ci/setup.sh demo|test|test-fast|lint|attention" ;;
esac

cd "$(dirname "$0")/.."
root=$(pwd -P)
venv=$root/.venv
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin # an ordinary user's PATH on Debian has neither dockerd nor usermod
if [ -n "${REPROKIT_HOME-}" ]; then
    engine_log=$REPROKIT_HOME/state/dockerd.log
else
    engine_log=${XDG_STATE_HOME:-${HOME:-/root}/.local/state}/reprokit/dockerd.log
fi
trap 'exit 130' INT TERM

if fits "$venv/bin/python"; then python=$venv/bin/python; else find_python; fi

engine=unneeded
socket=/var/run/docker.sock
if [ "$needs_engine" = yes ]; then
    case ${DOCKER_HOST-} in
        "" | unix://*)
            socket=${DOCKER_HOST:-unix://$socket}
            socket=${socket#unix://}
            engine=$(engine_state)
            ;;
        *)
            say "the engine is yours: DOCKER_HOST=$DOCKER_HOST"
            engine=elsewhere
            ;;
    esac
    if [ "$engine" = absent ] && [ "$socket" != /var/run/docker.sock ]; then
        die 3 "no engine answers at DOCKER_HOST=$DOCKER_HOST" "start that engine, or unset DOCKER_HOST"
    fi
fi
find_missing

if [ "${REPROKIT_NO_INSTALL:-0}" = 1 ]; then
    [ -z "$packages" ] || say "missing packages (names as in Debian):$packages"
    [ "$engine" != absent ] || say "missing: a running Docker Engine ($socket)"
    [ "$engine" != denied ] || say "missing: the right to use the engine ($socket); the group docker has it"
    venv_current || say "missing: an up-to-date .venv for '$target'"
    case $packages$engine in absent | denied | " "*) exit 3 ;; esac
    venv_current || exit 3
    say "nothing is missing"
    exit 0
fi

mkdir -p "$venv" || die 3 "$venv cannot be written" "who made this checkout? an earlier run as root leaves files of root"
if has flock; then
    exec 9>"$venv/.setup-lock"
    flock -n 9 || { say "another set-up runs here; waiting for it" && flock 9; }
fi

case $packages in *docker.io*) installed_engine=yes ;; *) installed_engine=no ;; esac
install_packages
start_engine
open_socket
make_venv
