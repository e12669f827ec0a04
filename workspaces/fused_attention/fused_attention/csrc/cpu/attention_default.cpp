// Any processor: vectors of 16 bytes, as SSE2 and NEON have them.
#define FA_ISA isa_default
#define FA_VECTOR_BYTES 16
#define FA_LEVEL 0
#include "gradient.h"

namespace fused_attention {

CpuKernel kernel_default() {
  return isa_default::make_kernel("default", {0, {isa_default::kKeyMultiple, 0, 0}, {1, 0, 0}, 0.1f});
}

}  // namespace fused_attention
