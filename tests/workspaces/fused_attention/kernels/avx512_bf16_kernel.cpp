// avx512_kernel.cpp with the instructions of AVX512-BF16.
#define FA_LEVEL 3
#include "avx512_kernel.cpp"
