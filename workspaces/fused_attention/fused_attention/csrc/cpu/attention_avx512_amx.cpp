// AVX-512 with BF16 and both products in AMX tiles; for bf16 only. See attention_avx512.cpp for clang.
#include "amx.h"
#if defined(FA_AMX) && __GNUC__ >= 10
// Before the pragma: what these define must run everywhere, for another file may use this file's copy.
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,f16c")
#define FA_ISA isa_avx512_amx
#define FA_VECTOR_BYTES 64
#define FA_LEVEL 3
#define FA_TILES HardwareTiles
#include "kernel.h"

namespace fused_attention {

// These costs are estimates; docs/attention.md measures the kernel as a whole, on a Xeon. exp and the transposition take
// most of a panel's time, and a gathered key's copy weighs more, since the products are twice as fast.
CpuKernel kernel_avx512_amx() {
  const PanelCosts costs{4, {kTileDepth, kTileDepth, kTileDepth}, {1.2f, 1.05f, 1.0f}, 0.25f};
  // The backward pass has no tiles.
  CpuKernel kernel = kernel_avx512_bf16();
  kernel.capability = "avx512_amx";
  kernel.scratch_floats = isa_avx512_amx::scratch_floats;
  kernel.attend = isa_avx512_amx::attend;
  kernel.costs = costs;
  return kernel;
}

}  // namespace fused_attention
#endif
