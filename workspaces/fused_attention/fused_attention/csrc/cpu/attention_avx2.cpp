// AVX2 with FMA. Clang ignores the pragma and would not compile the wide vectors to what they promise: it keeps
// the default.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
// Before the pragma: what these define must run everywhere, for another file may use this file's copy.
#include <cmath>
#include <cstdint>
#include <cstring>
#pragma GCC target("avx2,fma")
#define FA_ISA isa_avx2
#define FA_VECTOR_BYTES 32
#include "kernel.h"

namespace fused_attention {

void attend_avx2(const AttentionParams& params, int64_t begin, int64_t end, float* scratch) {
  isa_avx2::attend(params, begin, end, scratch);
}

}  // namespace fused_attention
#endif
