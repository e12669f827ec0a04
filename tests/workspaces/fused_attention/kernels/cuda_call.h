// A call of an emulated kernel from Python: arguments as numbers, masks cut into tiles as the launch cuts them.
#pragma once

#include "cuda_emulation.h"
#include "call_numbers.h"
#include "tiles.cpp"

#include "structure.cpp"

#include "cuda/classify.cuh"
#include "cuda/schedule.h"

namespace fused_attention {

struct CallForTest {
  Call call;
  std::vector<int64_t> lists, made;
  int mode;

  // tensors: q, k, v, out, mask, structure, cu_q, cu_k, alibi, lse. numbers: dtype, mask kind, causal, batch, heads,
  // kv_heads, q_len, k_len, head_dim, section, then three strides each of q, k, v and out and four of the mask.
  // mode: bit 0: threads in descending order; bit 1: asynchronous copies are late.
  CallForTest(void** tensors, const int64_t* numbers, float scale, int mode) : call(), mode(mode) {
    AttentionParams& p = call.p;
    p.q = tensors[0];
    p.k = tensors[1];
    p.v = tensors[2];
    p.out = tensors[3];
    p.mask.data = tensors[4];
    p.structure.words = static_cast<const int64_t*>(tensors[5]);
    p.cu_q = static_cast<const int32_t*>(tensors[6]);
    p.cu_k = static_cast<const int32_t*>(tensors[7]);
    p.alibi = static_cast<const float*>(tensors[8]);
    p.lse = static_cast<float*>(tensors[9]);
    p.dtype = static_cast<DataType>(numbers[0]);
    p.mask.kind = static_cast<MaskKind>(numbers[1]);
    p.mask.causal = numbers[2] != 0;
    numbers += 3;
    take_lengths(numbers, p);
    p.q_rows = p.q_len;  // without packing
    p.head_dim = static_cast<int>(numbers[0]);
    p.scale = scale;
    call.section = static_cast<int32_t>(numbers[1]);
    numbers += 2;
    take_tensor_strides(numbers, p);
    take_mask_strides(numbers, p.mask);
    call.vectors = has_vectors(p);
  }

  // Cuts the call into query tiles of `rows` rows, and makes the lists of its masks.
  void cut(int rows) {
    AttentionParams& p = call.p;
    call.query_tiles = static_cast<int32_t>((p.q_len + rows - 1) / rows);
    if (p.structure.exists()) {
      const TileLists tiles = list_tiles(p.structure, p.mask.causal, batches_of(p.structure, p.batch), p.q_len,
                                         p.k_len, rows, kTileKeys);
      lists = tiles.packed();
      call.tiles = tiles.view(lists.data());
    }
    if (p.mask.kind == MaskKind::kBool) classify(rows, kTileKeys);
  }

  // Makes the lists of a boolean mask, from those of the structured one if there are any.
  void classify(int rows, int keys) {
    const AttentionParams& p = call.p;
    Classification c{};
    c.mask = p.mask;
    c.structure = call.tiles;
    c.q_len = static_cast<int32_t>(p.q_len);
    c.k_len = static_cast<int32_t>(p.k_len);
    c.rows = rows;
    c.keys = keys;
    c.query_tiles = static_cast<int32_t>((p.q_len + rows - 1) / rows);
    c.batches = p.mask.batch_stride == 0 && call.tiles.batch_stride == 0 ? 1 : static_cast<int32_t>(p.batch);
    c.heads = p.mask.head_stride == 0 ? 1 : static_cast<int32_t>(p.heads);
    c.capacity = static_cast<int32_t>((p.k_len + keys - 1) / keys);
    const int64_t slots = c.lists() * c.capacity;
    made.assign(c.lists() + slots + slots * rows * (keys / 64), -1);
    c.ranges = reinterpret_cast<KeyTileRange*>(made.data());
    c.tiles = reinterpret_cast<KeyTile*>(made.data() + c.lists());
    c.bits = reinterpret_cast<uint64_t*>(made.data() + c.lists() + slots);
    for (int64_t list = 0; list < c.lists(); ++list) {
      blockIdx.x = static_cast<unsigned>(list);
      emulation::run_block(kClassifyThreads, mode & 1, mode & 2, [&] { classify_list(c); });
    }
    call.tiles = c.view();
  }

  template <class Body>
  void run(unsigned threads, Body body) {
    run(piece_count(call), threads, call, body);
  }

  // Runs body(argument) in thread blocks.
  template <class Argument, class Body>
  void run(int64_t blocks, unsigned threads, const Argument& argument, Body body) {
    gridDim.x = static_cast<unsigned>(blocks);
    for (unsigned i = 0; i < gridDim.x; ++i) {
      blockIdx.x = i;
      emulation::run_block(threads, mode & 1, mode & 2, [&] { body(argument); });
    }
  }
};

}  // namespace fused_attention
