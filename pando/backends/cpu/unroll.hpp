// Loops over arrays of vectors. Without unrolling GCC keeps such arrays in memory.
#pragma once

#if defined(__clang__)
#define PANDO_UNROLL _Pragma("unroll")
#else
#define PANDO_UNROLL _Pragma("GCC unroll 16")
#endif
