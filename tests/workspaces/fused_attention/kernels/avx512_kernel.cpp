// The CPU kernel for AVX-512 on emulated instructions. Loaded before the extension's library, this library's
// select_kernel takes the place of that one's.
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors wider than this machine's never leave a function
#ifndef FA_LEVEL
#define FA_LEVEL 2
#endif
#include "avx512_emulation.h"

#define FA_ISA isa_avx512_emulated
#define FA_VECTOR_BYTES 64
#include "cpu/gradient.h"

namespace fused_attention {

const CpuKernel& select_kernel(DataType) {
  static const CpuKernel kernel = isa_avx512_emulated::make_kernel(
      FA_LEVEL == 2 ? "emulated avx512" : "emulated avx512_bf16", {FA_LEVEL, {8, 4, 2}, {1.1f, 1.03f, 1.0f}, 0.12f});
  return kernel;
}

}  // namespace fused_attention
