// The CUDA kernels under emulation, callable from Python.
#include "cuda_instructions.h"

#define FUSED_ATTENTION_EMULATED
#include "cuda/gradient.cuh"
#include "cuda/mma_kernel.cuh"
#include "cuda/plan.h"
#include "cuda/simt_kernel.cuh"
#include "cuda_call.h"

using namespace fused_attention;

namespace {

template <class F, class T, int D, int kWarpRows>
int run(CallForTest& test) {
  test.cut(MmaShape<T, D, kWarpRows>::kRows);
  test.run(kThreads, [](const Call& call) {
    if (Scaling(call.p).by_element) {
      attend_tile<F, T, D, kWarpRows, true>(call, 0);
    } else {
      attend_tile<F, T, D, kWarpRows, false>(call, 0);
    }
  });
  return 0;
}

template <class F, class T>
int run(CallForTest& test, bool tall) {
  if (test.call.p.head_dim > 128) return tall || sizeof(T) == 4 ? 1 : run<F, T, 256, 16>(test);
  if (test.call.p.head_dim > 64) return tall ? run<F, T, 128, 32>(test) : run<F, T, 128, 16>(test);
  return tall ? run<F, T, 64, 32>(test) : run<F, T, 64, 16>(test);
}

template <class F, class T, int D, bool kBias>
void run_gradients(CallForTest& test, const GradientCall& c) {
  const AttentionParams& p = c.call.p;
  test.run((p.batch * p.heads * p.q_len + kWarps - 1) / kWarps, kThreads, c, sum_products<T>);
  test.run(piece_count(c.call), kThreads, c, [](const GradientCall& c) { differentiate_rows<F, T, D, kBias>(c, 0); });
  test.run(key_piece_count(p), kThreads, c, [](const GradientCall& c) { differentiate_keys<F, T, D, kBias>(c, 0); });
}

template <class F, class T>
void run_gradients(CallForTest& test, void** tensors) {
  const AttentionParams& p = test.call.p;
  run<F, T>(test, false);
  const GradientParams g{tensors[0], tensors[2], tensors[3], tensors[4], p.out_strides, p.q_strides, p.k_strides,
                         p.v_strides, static_cast<float*>(tensors[1])};
  const GradientCall c = make_gradient_call(test.call, g);
  const bool has_bias = p.mask.is_additive() || p.alibi != nullptr;
  if (p.head_dim <= 64) {
    has_bias ? run_gradients<F, T, 64, true>(test, c) : run_gradients<F, T, 64, false>(test, c);
  } else {
    has_bias ? run_gradients<F, T, 128, true>(test, c) : run_gradients<F, T, 128, false>(test, c);
  }
}

template <class T, int D>
void run_simt(CallForTest& test) {
  test.cut(SimtShape<D>::kRows);
  test.run(kSimtThreads, attend_tile_simt<T, D>);
}

template <class T>
void run_simt(CallForTest& test) {
  if (test.call.p.head_dim > 128) return run_simt<T, 256>(test);
  return test.call.p.head_dim > 64 ? run_simt<T, 128>(test) : run_simt<T, 64>(test);
}

}  // namespace

extern "C" void attend_simt(void** tensors, const int64_t* numbers, float scale, int mode) {
  CallForTest test(tensors, numbers, scale, mode);
  switch (test.call.p.dtype) {
    case DataType::kFloat32: return run_simt<float>(test);
    case DataType::kBFloat16: return run_simt<BFloat16>(test);
    case DataType::kFloat16: return run_simt<Float16>(test);
  }
}

// What plan_attention says, as [tensor_cores, by_element, dims, warp_rows, rows].
extern "C" void plan(const int64_t* numbers, float scale, int architecture, int multiprocessors, bool tf32,
                     int64_t* out) {
  void* tensors[10] = {};
  const CallForTest test(tensors, numbers, scale, 0);
  const DeviceTraits traits{architecture, architecture, multiprocessors, 1 << 22};
  const LaunchPlan plan = plan_attention(test.call.p, traits, tf32);
  const int64_t fields[5] = {plan.tensor_cores, plan.by_element, plan.dims, plan.warp_rows, plan.rows};
  std::copy(fields, fields + 5, out);
}

// The pieces of a call in the order of their thread blocks: batch, head and query tile of `rows` rows.
extern "C" void pieces(const int64_t* numbers, int rows, int64_t* out) {
  void* tensors[10] = {};
  CallForTest test(tensors, numbers, 1.0f, 0);
  test.cut(rows);
  for (int64_t i = 0; i < piece_count(test.call); ++i) {
    const Piece piece = piece_of(test.call, static_cast<uint32_t>(i));
    *out++ = piece.batch;
    *out++ = piece.head;
    *out++ = piece.query_tile;
  }
}

// What the lists of a boolean mask show, in tiles of any shape: seen[batch][head][q_len][k_len]. Returns the number of
// full tiles, or -1 where one is listed that shows nothing.
extern "C" int64_t classified(void** tensors, const int64_t* numbers, int rows, int keys, uint8_t* seen) {
  CallForTest test(tensors, numbers, 1.0f, 0);
  test.classify(rows, keys);
  const AttentionParams& p = test.call.p;
  const TileView& view = test.call.tiles;
  int64_t full = 0;
  for (int64_t row = 0; row < p.batch * p.heads * p.q_len; ++row) {
    const int64_t i = row % p.q_len, head = row / p.q_len % p.heads, batch = row / p.q_len / p.heads;
    const KeyTileRange range = view.range(batch, head, i / rows);
    for (int32_t t = range.begin; t < range.end; ++t) {
      const KeyTile tile = view.tiles[t];
      full += tile.bits == kFullTile && i % rows == 0;
      bool any = tile.bits == kFullTile;
      for (int64_t word = 0; !any && word < rows * (keys / 64); ++word) any = view.row_bits(tile.bits, 0)[word] != 0;
      if (!any) return -1;
      for (int64_t j = 0; j < keys && tile.index * int64_t{keys} + j < p.k_len; ++j) {
        const bool sees = tile.bits == kFullTile || (view.row_bits(tile.bits, i % rows)[j / 64] >> (j % 64) & 1);
        seen[row * p.k_len + tile.index * int64_t{keys} + j] = sees;
      }
    }
  }
  return full;
}

// `capability` 70, 75 or 80; `tall`: 32 rows a warp. Returns 1 where there is no such kernel.
extern "C" int attend_mma(void** tensors, const int64_t* numbers, float scale, int capability, int tall, int mode) {
  CallForTest test(tensors, numbers, scale, mode);
  const bool bfloat = test.call.p.dtype == DataType::kBFloat16;
  if (test.call.p.dtype == DataType::kFloat32) return run<Tf32Fragments, float>(test, tall != 0);
  if (capability == 80) {
    return bfloat ? run<RowFragments<BFloat16, true>, BFloat16>(test, tall != 0)
                  : run<RowFragments<Float16, true>, Float16>(test, tall != 0);
  }
  if (bfloat) return 1;
  if (capability == 75) return run<RowFragments<Float16, false>, Float16>(test, tall != 0);
  if (!tall || test.call.p.head_dim > 128) return 1;
  return test.call.p.head_dim > 64 ? run<QuadPairFragments, Float16, 128, 32>(test)
                                   : run<QuadPairFragments, Float16, 64, 32>(test);
}

// A forward and a backward pass of at most 128 dimensions. `tensors` continues with the gradient of out, delta, dq, dk
// and dv, each laid out as what it belongs to.
extern "C" void gradients_mma(void** tensors, const int64_t* numbers, int64_t q_rows, float scale, int capability,
                              int mode) {
  CallForTest test(tensors, numbers, scale, mode);
  test.call.p.q_rows = q_rows;
  if (test.call.p.dtype == DataType::kBFloat16) return run_gradients<RowFragments<BFloat16, true>, BFloat16>(test, tensors + 10);
  if (capability == 80) return run_gradients<RowFragments<Float16, true>, Float16>(test, tensors + 10);
  run_gradients<RowFragments<Float16, false>, Float16>(test, tensors + 10);
}
