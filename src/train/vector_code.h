// TOMBOLO_VECTOR_CODE: compile a function for SSE2, AVX2 and AVX-512, and choose at load time.
//
// For plain loops over arrays, in files compiled with -O3. Every version does the same operations
// in the same order (no contraction, no reassociation), hence gives the same bits.
#pragma once

#if defined(__x86_64__) && defined(__linux__)
#define TOMBOLO_VECTOR_CODE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TOMBOLO_VECTOR_CODE
#endif
