#!/usr/bin/env bash
# pkg_config_consumer.sh CXX LIBDIR SOURCE CHECKPOINT [FLAGS...]: builds a program with what
# pkg-config says and runs it.
set -euo pipefail
cxx=$1 libdir=$2 source=$3 checkpoint=$4
program="$(mktemp)"
trap 'rm -f "$program"' EXIT
export PKG_CONFIG_PATH="$libdir/pkgconfig"
static=()
[[ ! -e "$libdir/libfusedmoe.a" ]] || static=(--static)
read -ra flags <<< "$(pkg-config "${static[@]}" --cflags --libs fusedmoe)"
"$cxx" -std=c++20 "${@:5}" "$source" "${flags[@]}" -Wl,-rpath,"$libdir" -o "$program"
"$program" "$checkpoint"
