// The CUDA kernel under emulation, callable from Python.
#include "cuda_emulation.h"

#include "cuda/kernel.cuh"

using namespace fused_attention;

namespace {

template <class T, int D>
void run(const AttentionParams& params, unsigned grid, bool descending) {
  gridDim.x = grid;
  for (unsigned i = 0; i < grid; ++i) {
    blockIdx.x = i;
    emulation::run_block(kThreads, descending, [&] { attend_kernel<T, D>(params); });
  }
}

template <class T>
void run(const AttentionParams& params, unsigned grid, bool descending) {
  if (params.head_dim <= 32) return run<T, 32>(params, grid, descending);
  if (params.head_dim <= 64) return run<T, 64>(params, grid, descending);
  if (params.head_dim <= 128) return run<T, 128>(params, grid, descending);
  return run<T, 256>(params, grid, descending);
}

Strides strides(const int64_t*& numbers) {
  const Strides result{numbers[0], numbers[1], numbers[2]};
  numbers += 3;
  return result;
}

}  // namespace

// tensors: q, k, v, out, mask. numbers: dtype, mask kind, causal, batch, heads, kv_heads, q_len, k_len, head_dim, then
// three strides each of q, k, v and out and four of the mask.
extern "C" void attend(void** tensors, const int64_t* numbers, float scale, unsigned grid, int descending) {
  AttentionParams p{};
  p.q = tensors[0];
  p.k = tensors[1];
  p.v = tensors[2];
  p.out = tensors[3];
  p.mask.data = tensors[4];
  p.dtype = static_cast<DataType>(numbers[0]);
  p.mask.kind = static_cast<MaskKind>(numbers[1]);
  p.mask.causal = numbers[2] != 0;
  p.batch = numbers[3];
  p.heads = numbers[4];
  p.kv_heads = numbers[5];
  p.q_len = numbers[6];
  p.k_len = numbers[7];
  p.head_dim = static_cast<int>(numbers[8]);
  p.scale = scale;
  numbers += 9;
  p.q_strides = strides(numbers);
  p.k_strides = strides(numbers);
  p.v_strides = strides(numbers);
  p.out_strides = strides(numbers);
  p.mask.batch_stride = numbers[0];
  p.mask.head_stride = numbers[1];
  p.mask.row_stride = numbers[2];
  p.mask.key_stride = numbers[3];
  switch (p.dtype) {
    case DataType::kFloat32: return run<float>(p, grid, descending != 0);
    case DataType::kBFloat16: return run<BFloat16>(p, grid, descending != 0);
    case DataType::kFloat16: return run<Float16>(p, grid, descending != 0);
  }
}
