#!/bin/bash
# Packs what a bare GPU machine needs to run hetsynth and tests/gpu: binaries, the libraries they load, headers and
# examples. Driver, NVRTC, cublasLt and NCCL are the machine's own.
#   tests/gpu/bundle.sh BUILD_DIR OUT.tar.xz       there: tar xf OUT.tar.xz && hetsynth-bundle/run.sh
set -eu
build=${1:?name the build folder}
out=${2:?name the archive}
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/hetsynth-bundle
mkdir -p "$bundle/build/tests" "$bundle/lib" "$bundle/tests/gpu" "$bundle/docs"
strip -o "$bundle/build/hetsynth" "$build/hetsynth"
strip -o "$bundle/build/tests/test_gpu" "$build/tests/test_gpu"
# The C library is every machine's own; all others travel.
ldd "$build/hetsynth" "$build/tests/test_gpu" | awk '$3 ~ /^\// {print $3}' | sort -u |
  grep -vE '/(libc|libm|libpthread|libdl|librt|ld-linux[^/]*)\.so' | while read -r library; do
  cp -L "$library" "$bundle/lib/"
  strip --strip-unneeded "$bundle/lib/$(basename "$library")" 2> /dev/null || true
done
cp -r "$root/examples" "$bundle/"
(cd "$root" && find dsl -name '*.h' -print0 | tar --null -T - -cf -) | tar -C "$bundle" -xf -
cp "$build/generated/hetsynth/operators.h" "$bundle/dsl/include/hetsynth/"
# Model files include the C++ library: its headers, the C library's and Clang's own.
headers=$bundle/include
mkdir -p "$headers"
resource=$(dirname "$(find /usr/lib/llvm-19/lib/clang -name stddef.h | head -n 1)")
mkdir -p "$bundle/clang-resource" && cp -rL "$resource" "$bundle/clang-resource/include"
(cd "$bundle/clang-resource/include" && rm -rf arm* riscv* altivec* s390* hexagon* hvx* opencl* hlsl* msa.h lasx* lsx* wasm* \
  ppc_wrappers llvm_libc_wrappers amdgpu* larchintrin* htm* vecintrin* velintrin* sifive*) # of other machines
cxx=$(ls -d /usr/include/c++/* | sort -V | tail -n 1)
cp -rL "$cxx" "$headers/c++"
cp -rL "/usr/include/x86_64-linux-gnu/c++/$(basename "$cxx")" "$headers/c++-machine"
mkdir -p "$headers/c" && cp -L /usr/include/*.h "$headers/c/"
cp -rL /usr/include/asm-generic "$headers/c/"
mkdir -p "$headers/c/linux" # what the C library's own headers ask for
for name in close_range errno limits posix_types stddef types; do cp -L "/usr/include/linux/$name.h" "$headers/c/linux/"; done
for folder in bits sys gnu asm; do cp -rL "/usr/include/x86_64-linux-gnu/$folder" "$headers/c/"; done
cp "$root/tests/gpu/run.sh" "$root/tests/gpu/gpt2_pytorch.py" "$bundle/tests/gpu/"
cat > "$bundle/run.sh" <<'RUN'
#!/bin/bash
# All GPU tests and speeds, into results.md beside this file, or where HETSYNTH_GPU_RESULTS says.
here=$(cd "$(dirname "$0")" && pwd)
export HETSYNTH_LIBRARIES=$here/lib # not LD_LIBRARY_PATH, which would reach Python and PyTorch
export HETSYNTH_EXAMPLES_DIR=$here/examples
if [ ! -f /usr/include/c++/*/vector ] 2> /dev/null; then
  headers=$here/include
  export HETSYNTH_INCLUDE_DIRS=$here:$here/dsl/include:$headers/c++:$headers/c++-machine:$here/clang-resource/include:$headers/c
else
  export HETSYNTH_INCLUDE_DIRS=$here:$here/dsl/include
fi
export HETSYNTH_CLANG_RESOURCE_DIR=$here/clang-resource
"$here/tests/gpu/run.sh" "$here/build" "${HETSYNTH_GPU_RESULTS:-$here/results.md}"
RUN
chmod +x "$bundle/run.sh"
# Unicode's tables, 31 MB for an XML reader that LLVM only wants for Windows: an empty library of the same name does.
for icu in "$bundle"/lib/libicudata.so.*; do
  [ -e "$icu" ] || continue
  name=$(basename "$icu")
  version=${name##*.}
  echo "const char icudt${version}_dat[64] __attribute__((aligned(16))) = {0};" |
    cc -shared -fPIC -x c - -Wl,-soname,"$name" -o "$icu"
done
# Machine code packs better with its jumps made absolute first.
tar -C "$work" -cf - hetsynth-bundle | xz --x86 --lzma2=preset=9e,dict=192MiB > "$out"
size=$(stat -c %s "$out")
echo "$out: $((size / 1000000)) MB"
[ "$size" -lt 60000000 ] || { echo "more than 60 MB"; exit 1; }
