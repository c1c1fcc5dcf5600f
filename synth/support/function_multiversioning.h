// Functions compiled once more for machines with wider registers, which are chosen when the program starts.
#pragma once

/// Before functions whose loops become vectors. Not by Clang, which refuses it for members that were called before, and
/// not under sanitizers, which are not ready yet when the choice is made.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define HETSYNTH_HAS_AVX2_TOO
#define HETSYNTH_AVX2_TOO __attribute__((target_clones("avx2", "default")))
#else
#define HETSYNTH_AVX2_TOO
#endif
