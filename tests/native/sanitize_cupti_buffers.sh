#!/bin/sh
# Builds the pool and its stress driver with a sanitizer and runs it: sanitize_cupti_buffers.sh FOLDER SANITIZERS
# (`thread`, or `address,undefined`). $CC names the compiler. Exit status 77: there is no such sanitizer here.
set -eu

tests=$(cd "$(dirname "$0")" && pwd)
native=$tests/../../gpuviz/_native
folder=$1
sanitizers=$2
compiler=${CC:-cc}
flags="-std=c11 -g -O1 -fno-omit-frame-pointer -fno-sanitize-recover=all -fsanitize=$sanitizers -pthread"

printf 'int main(void) { return 0; }\n' >"$folder/empty.c"
if ! $compiler $flags -o "$folder/empty" "$folder/empty.c" 2>/dev/null || ! "$folder/empty" 2>/dev/null; then
    echo "$compiler has no working sanitizer '$sanitizers' here"
    exit 77
fi
$compiler $flags -D_GNU_SOURCE -Wall -Wextra -Werror -o "$folder/stress" \
    "$tests/cupti_buffers_stress.c" "$native/cupti_buffers.c" "$native/cupti_records.c"
"$folder/stress"
