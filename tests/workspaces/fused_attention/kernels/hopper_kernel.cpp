// The kernel for Hopper, its schedule and what it supports, callable from Python: compiled by g++ alone.
#include "hopper_emulation.h"
#include "call_numbers.h"

#include "cuda/hopper/kernel.h"
#include "cuda/hopper/plan.h"
#include "structure.cpp"
#include "tiles.cpp"

using namespace fused_attention;
using namespace fused_attention::hopper;

namespace {

template <class T, int D>
void body(const void* call) {
  run_block<D, T, emulation::Machine>(*static_cast<const Call<TensorMap>*>(call));
}

template <class T>
void run(const Call<TensorMap>& call, int blocks, bool late) {
  for (int i = 0; i < blocks; ++i) {
    emulation::run_block(i, blocks, late, call.params.head_dim <= 64 ? body<T, 64> : body<T, 128>, &call);
  }
}

// tensors: q, k, v, out, cu_q, cu_k, alibi, lse. numbers: dtype, causal, batch, heads, kv_heads, q_len, k_len, q_rows,
// k_rows, head_dim, then three strides each of q, k, v and out.
AttentionParams params_of(void** tensors, const int64_t* numbers, float scale) {
  AttentionParams p{};
  p.q = tensors[0];
  p.k = tensors[1];
  p.v = tensors[2];
  p.out = tensors[3];
  p.cu_q = static_cast<const int32_t*>(tensors[4]);
  p.cu_k = static_cast<const int32_t*>(tensors[5]);
  p.alibi = static_cast<const float*>(tensors[6]);
  p.lse = static_cast<float*>(tensors[7]);
  p.dtype = static_cast<DataType>(numbers[0]);
  p.mask.causal = numbers[1] != 0;
  numbers += 2;
  take_lengths(numbers, p);
  p.q_rows = numbers[0];
  p.k_rows = numbers[1];
  p.head_dim = static_cast<int>(numbers[2]);
  p.scale = scale;
  numbers += 3;
  take_tensor_strides(numbers, p);
  return p;
}

}  // namespace

extern "C" {

// Returns 0 where the kernel does not take the call. The lists of a mask that changes from batch to batch are taken for
// those of the heads if `by_head`.
int attend(void** tensors, const int64_t* numbers, float scale, const int64_t* structure, int64_t size,
           int by_head, int64_t cache_bytes, int blocks, int late) {
  AttentionParams params = params_of(tensors, numbers, scale);
  params.structure = Structure{structure, size};
  std::vector<int64_t> words;
  TileView view{};
  if (structure) {
    const int64_t batches = batches_of(params.structure, by_head ? params.heads : params.batch);
    const TileLists lists = list_tiles(params.structure, params.mask.causal, batches, params.q_len, params.k_len,
                                       kTileRows, kTileKeys);
    words = lists.packed();
    view = lists.view(words.data());
    if (by_head) {
      std::swap(view.batch_stride, view.head_stride);
      view.order = nullptr;
    }
  }
  if (!hopper_supports(params, view)) return 0;
  const auto call = plan<TensorMap>(params, view, cache_bytes, [](const TensorMap& map) { return map; });
  if (params.dtype == DataType::kFloat16) {
    run<Float16>(call, blocks, late != 0);
  } else {
    run<BFloat16>(call, blocks, late != 0);
  }
  return 1;
}

// Whether the kernel takes a call without a structured mask; `mask_kind` is that of a tensor.
int supports(void** tensors, const int64_t* numbers, float scale, int mask_kind) {
  AttentionParams params = params_of(tensors, numbers, scale);
  params.mask.kind = static_cast<MaskKind>(mask_kind);
  return hopper_supports(params, TileView{});
}

// The batch, head and query tile of every piece, in the order of rounds of `blocks` blocks; -1 for a block that idles
// in the last round. Returns how many places were filled.
int64_t order(const int64_t* numbers, int64_t cache_bytes, int blocks, int32_t* places) {
  void* tensors[8] = {};
  const AttentionParams params = params_of(tensors, numbers, 1.0f);
  Call<TensorMap> call{};
  call.params = params;
  call.query_tiles = static_cast<int32_t>(query_tiles(params));
  call.pieces = static_cast<int32_t>(call.query_tiles * params.batch * params.heads);
  call.section_heads = static_cast<int32_t>(side_by_side(params, cache_bytes));
  int64_t filled = 0;
  for (int round = 0; static_cast<int64_t>(round) * blocks < call.pieces; ++round) {
    for (int block = 0; block < blocks; ++block, ++filled) {
      const int64_t number = piece_number(block, blocks, round);
      int32_t* place = places + 4 * filled;
      place[0] = -1;
      if (number >= call.pieces) continue;
      const Piece piece = piece_at(call, static_cast<int32_t>(number));
      place[0] = piece.batch;
      place[1] = piece.head;
      place[2] = piece.first_row / kTileRows;
      place[3] = piece.count;
    }
  }
  return filled;
}

uint32_t swizzled(uint32_t address) {
  return swizzle(address);
}
}
