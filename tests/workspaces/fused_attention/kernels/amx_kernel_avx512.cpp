// amx_kernel.cpp with the instructions that the kernel has beside the tiles.
#pragma GCC diagnostic ignored "-Wuninitialized"  // in gcc 12's own headers
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,f16c")
#define FA_LEVEL 3
#include "amx_kernel.cpp"
