// AVX-512 with BF16: pairs of bfloat16 are multiplied and summed by one instruction. See attention_avx512.cpp for
// clang.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 10
// Before the pragma: what these define must run everywhere, for another file may use this file's copy.
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,f16c")
#define FA_ISA isa_avx512_bf16
#define FA_VECTOR_BYTES 64
#define FA_LEVEL 3
#include "gradient.h"

namespace fused_attention {

CpuKernel kernel_avx512_bf16() {
  return isa_avx512_bf16::make_kernel("avx512_bf16", {3, {8, 4, 2}, {1.1f, 1.03f, 1.0f}, 0.12f});
}

}  // namespace fused_attention
#endif
