// AVX2 with FMA and F16C. See attention_avx512.cpp for clang.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
// Before the pragma: what these define must run everywhere, for another file may use this file's copy.
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#pragma GCC target("avx2,fma,f16c")
#define FA_ISA isa_avx2
#define FA_VECTOR_BYTES 32
#define FA_LEVEL 1
#include "gradient.h"

namespace fused_attention {

CpuKernel kernel_avx2() {
  return isa_avx2::make_kernel("avx2", {1, {isa_avx2::kKeyMultiple, 0, 0}, {1, 0, 0}, 0.1f});
}

}  // namespace fused_attention
#endif
