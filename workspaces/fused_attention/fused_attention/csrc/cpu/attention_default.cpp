// Every processor: 16-byte vectors (SSE2, NEON, ...), or whatever the compiler makes of them.
#define FA_ISA isa_default
#define FA_VECTOR_BYTES 16
#include "kernel.h"

namespace fused_attention {

void attend_default(const AttentionParams& params, int64_t begin, int64_t end, float* scratch) {
  isa_default::attend(params, begin, end, scratch);
}

}  // namespace fused_attention
