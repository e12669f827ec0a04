#!/bin/sh
# Compiles helper.c to FILE. The same compiler gives the same bytes: no build id, path or date is in them. The programs
# beside this file were made by gcc 12.2.0 and binutils 2.40 (Debian 12):
#   sh build.sh helper-amd64 x86_64-linux-gnu-gcc; sh build.sh helper-arm64 aarch64-linux-gnu-gcc
set -eu
file=$1 compiler=$2
exec "$compiler" -std=gnu11 -Os -Wall -Wextra -Werror -ffreestanding -fno-ident -fno-stack-protector -fno-pie \
    -fno-asynchronous-unwind-tables -fno-tree-loop-distribute-patterns -mgeneral-regs-only \
    -nostdlib -static -no-pie -s -Wl,--build-id=none,-z,noexecstack,-z,noseparate-code \
    -o "$file" "$(dirname "$0")/helper.c"
