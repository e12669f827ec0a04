// AVX-512. Clang ignores the pragma and would not compile the wide vectors to what they promise: it keeps the
// default.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
// Before the pragma: what these define must run everywhere, for another file may use this file's copy.
#include <cmath>
#include <cstdint>
#include <cstring>
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma")
#define FA_ISA isa_avx512
#define FA_VECTOR_BYTES 64
#include "kernel.h"

namespace fused_attention {

void attend_avx512(const AttentionParams& params, int64_t begin, int64_t end, float* scratch) {
  isa_avx512::attend(params, begin, end, scratch);
}

}  // namespace fused_attention
#endif
