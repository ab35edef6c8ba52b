#!/usr/bin/env bash
# Compiles the BPF programs anew into objects/, and notes of which sources: run it after a change
# of any file here. Needs clang, llvm-strip, libbpf's headers (libbpf-dev), python3.
set -eu
cd "$(dirname "$0")"
export LC_ALL=C
mkdir -p objects
python3 hstcp_table.py >hstcp_table.h
for source in *.bpf.c; do
    object=objects/${source%.bpf.c}.o
    # Not the machine's own instruction set: 3 is known to Linux from 5.1 on.
    clang -O2 -g -Wall -Werror -target bpfel -mcpu=v3 -fdebug-compilation-dir=. \
        -I"/usr/include/$(uname -m)-linux-gnu" -c "$source" -o "$object"
    # Takes the debugging information, leaves types and relocations (.BTF, .BTF.ext).
    llvm-strip -g "$object"
done
sha256sum -- *.c *.h *.py objects/*.o >SHA256SUMS
