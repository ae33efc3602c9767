#pragma once

// Two macros for loops over floats that the compiler vectorises.
//
// TRIREME_SIMD before a function compiles it for AVX-512, AVX2 and the base instruction set; the loader picks one when
// the program starts. Empty where that is not available: other processors, compilers without it, and AddressSanitizer
// or ThreadSanitizer, whose runtime is not ready yet when the loader chooses. All versions give the same bits as long
// as the file is compiled with -ffp-contract=off: otherwise AVX-512 and AVX2 versions would fuse a * b + c.
//
// TRIREME_INDEPENDENT before a loop promises that no iteration reads what another one writes. Unlike __restrict it
// allows in-place work, where element i is read and written by iteration i.

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__) || !defined(__GNUC__) || \
    !defined(__x86_64__) || !defined(__gnu_linux__)
#define TRIREME_SIMD
#else
#define TRIREME_SIMD __attribute__((target_clones("avx512f", "avx2", "default")))
#endif

#if defined(__clang__)
#define TRIREME_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define TRIREME_INDEPENDENT _Pragma("GCC ivdep")
#else
#define TRIREME_INDEPENDENT
#endif
