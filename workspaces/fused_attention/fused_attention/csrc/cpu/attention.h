// The CPU kernel, compiled once per instruction set.
#pragma once

#include "../params.h"

namespace fused_attention {

// A block of query rows is one piece of work; a bit of a 64-bit word stands for one of its rows.
constexpr int kBlockRows = 64;
constexpr int kTileKeys = 64;
constexpr int kScratchAlignment = 64;

inline int64_t row_blocks(const AttentionParams& params) {
  return (params.q_len + kBlockRows - 1) / kBlockRows;
}

// Floats of scratch memory that one thread needs.
inline int64_t scratch_floats(const AttentionParams& params) {
  const int64_t blocks = 2 * kBlockRows;  // the transposed query block and the output's
  const int64_t tiles = 2 * kTileKeys;    // keys and values of a 16-bit type, widened
  return (blocks + tiles) * params.head_dim + 2 * kTileKeys * kBlockRows;
}

// Computes the pieces [begin, end) of batch * heads * row_blocks(params), row blocks running fastest.
// `scratch` holds scratch_floats(params) floats, aligned to kScratchAlignment bytes.
using AttendFunction = void (*)(const AttentionParams& params, int64_t begin, int64_t end, float* scratch);

void attend_default(const AttentionParams& params, int64_t begin, int64_t end, float* scratch);
void attend_avx2(const AttentionParams& params, int64_t begin, int64_t end, float* scratch);
void attend_avx512(const AttentionParams& params, int64_t begin, int64_t end, float* scratch);

struct CpuKernel {
  const char* capability;  // "default", "avx2" or "avx512"
  AttendFunction attend;
};

// The widest one that this machine runs, at most what ATEN_CPU_CAPABILITY allows (as for torch's own kernels).
const CpuKernel& select_kernel();

}  // namespace fused_attention
