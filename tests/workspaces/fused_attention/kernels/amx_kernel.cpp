// The whole CPU kernel on emulated AMX tiles, callable from Python. FA_LEVEL 3 is for processors with AVX512-BF16.
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors wider than this machine's never leave a function
#include "amx_emulation.h"

#ifndef FA_LEVEL
#define FA_LEVEL 0
#endif
#define FA_ISA isa_amx_emulated
#define FA_VECTOR_BYTES 64
#define FA_TILES EmulatedTiles
#include "cpu/kernel.h"
#include "cpu/plan.h"

#include "call_numbers.h"

using namespace fused_attention;

// tensors: q, k, v, out, mask, structure, slopes, cu_q, cu_k, lse; null where there is none. numbers: mask kind, causal,
// batch, heads, kv_heads, q_len, k_len, head_dim, words of the structure, then three strides each of q, k, v and out
// and four of the mask. parts: pieces that the work is done in.
extern "C" void attend(void** tensors, const int64_t* numbers, float scale, int parts) {
  AttentionParams p{};
  p.q = tensors[0];
  p.k = tensors[1];
  p.v = tensors[2];
  p.out = tensors[3];
  p.mask.data = tensors[4];
  p.structure = Structure{static_cast<const int64_t*>(tensors[5]), numbers[8]};
  p.alibi = static_cast<const float*>(tensors[6]);
  p.cu_q = static_cast<const int32_t*>(tensors[7]);
  p.cu_k = static_cast<const int32_t*>(tensors[8]);
  p.lse = static_cast<float*>(tensors[9]);
  p.dtype = DataType::kBFloat16;
  p.mask.kind = static_cast<MaskKind>(numbers[0]);
  p.mask.causal = numbers[1] != 0;
  numbers += 2;
  take_lengths(numbers, p);
  p.q_rows = p.q_len;
  p.head_dim = static_cast<int>(numbers[0]);
  p.scale = scale;
  numbers += 2;
  take_tensor_strides(numbers, p);
  take_mask_strides(numbers, p.mask);

  const Plans plans(p, PanelCosts{-1, {32, 32, 32}, {1.2f, 1.05f, 1.0f}, 0.25f});
  const Problem problem = plans.problem(p);
  const int64_t heads = p.batch * p.heads;
  const size_t floats = static_cast<size_t>(isa_amx_emulated::scratch_floats(problem));
  // NaN, so that nothing can rely on memory that is not written.
  std::vector<float> memory(floats + kScratchAlignment / sizeof(float), NAN);
  const uintptr_t start = (reinterpret_cast<uintptr_t>(memory.data()) + kScratchAlignment - 1) & -kScratchAlignment;
  for (int part = 0; part < parts; ++part) {
    const Position from{heads * part / parts, 0}, to{heads * (part + 1) / parts, 0};
    isa_amx_emulated::attend(problem, from, to, reinterpret_cast<float*>(start));
  }
}
