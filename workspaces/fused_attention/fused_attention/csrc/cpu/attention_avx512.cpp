// AVX-512. Clang ignores the pragma and would not compile the wide vectors to what
// they promise: it keeps the default.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
// Before the pragma: what these define must run everywhere, for another file may use this file's copy.
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")
#define FA_ISA isa_avx512
#define FA_VECTOR_BYTES 64
#define FA_LEVEL 2
#include "gradient.h"

namespace fused_attention {

CpuKernel kernel_avx512() {
  return isa_avx512::make_kernel("avx512", {2, {8, 4, 2}, {1.1f, 1.03f, 1.0f}, 0.12f});
}

}  // namespace fused_attention
#endif
