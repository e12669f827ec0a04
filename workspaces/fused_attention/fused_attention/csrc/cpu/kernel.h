// Attention of blocks of query rows. Tables are [.][kBlockRows]: a query row is a lane throughout.
#pragma once

#include "gemm.h"
#include "mask_tile.h"

namespace fused_attention {
namespace FA_ISA {

using RowSoftmax = OnlineSoftmax<VectorMath>;

struct Scratch {
  float *query, *out;      // [head_dim][kBlockRows]
  float *scores, *bias;    // [kTileKeys][kBlockRows]
  float *keys, *values;    // [kTileKeys][head_dim]
  uint64_t keep[64];       // rows that see a key, one bit each
  RowSoftmax softmax[kBlockRows / kLanes];
  alignas(kScratchAlignment) float correction[kBlockRows];

  Scratch(float* memory, int head_dim) {
    query = memory;
    out = query + kBlockRows * head_dim;
    scores = out + kBlockRows * head_dim;
    bias = scores + kTileKeys * kBlockRows;
    keys = bias + kTileKeys * kBlockRows;
    values = keys + kTileKeys * head_dim;
  }
};

// Rows as floats: where they lie, or widened into `buffer`. `stride` becomes that of the result.
FA_HOST_DEVICE const float* as_floats(const float* rows, int64_t, int, int, float*, int64_t*) {
  return rows;
}

template <class T>
FA_HOST_DEVICE const float* as_floats(const T* rows, int64_t row_stride, int count, int head_dim, float* buffer,
                                      int64_t* stride) {
  for (int row = 0; row < count; ++row) {
    for (int d = 0; d < head_dim; ++d) buffer[row * head_dim + d] = to_float(rows[row * row_stride + d]);
  }
  *stride = head_dim;
  return buffer;
}

// Lanes beyond the last row hold zero queries, so that no stale NaN slows or traps.
template <class T>
FA_HOST_DEVICE void load_query(const T* q, int64_t row_stride, int rows, int padded_rows, int head_dim,
                               float scale, float* query) {
  for (int row = 0; row < rows; ++row) {
    for (int d = 0; d < head_dim; ++d) query[d * kBlockRows + row] = to_float(q[row * row_stride + d]) * scale;
  }
  for (int row = rows; row < padded_rows; ++row) {
    for (int d = 0; d < head_dim; ++d) query[d * kBlockRows + row] = 0.0f;
  }
}

template <class T>
FA_HOST_DEVICE void store_out(const float* out, int rows, int head_dim, T* target, int64_t row_stride) {
  for (int row = 0; row < rows; ++row) {
    for (int d = 0; d < head_dim; ++d) target[row * row_stride + d] = from_float<T>(out[d * kBlockRows + row]);
  }
}

// Scores become weights exp(score - maximum); softmax and correction move on by this tile.
template <bool kBias, bool kKeep>
static void weigh(Scratch& s, int keys, int vectors) {
  for (int v = 0; v < vectors; ++v) {
    float* column = s.scores + v * kLanes;
    const float* bias = s.bias + v * kLanes;
    Vec maximum = broadcast(minus_infinity());
    for (int key = 0; key < keys; ++key) {
      Vec score = load(column + key * kBlockRows);
      if (kBias) score += load(bias + key * kBlockRows);
      if (kKeep) score = lanes_of(s.keep[key], v * kLanes) ? score : broadcast(minus_infinity());
      if (kBias || kKeep) store(column + key * kBlockRows, score);
      maximum = score > maximum ? score : maximum;
    }
    store(s.correction + v * kLanes, s.softmax[v].raise(maximum));
    const Vec origin = s.softmax[v].origin();
    Vec sum = Vec{};
    for (int key = 0; key < keys; ++key) {
      const Vec weight = exp(load(column + key * kBlockRows) - origin);
      store(column + key * kBlockRows, weight);
      sum += weight;
    }
    s.softmax[v].add(sum);
  }
}

FA_HOST_DEVICE void weigh(Scratch& s, int keys, int vectors, bool has_bias, bool is_partial) {
  if (has_bias) {
    is_partial ? weigh<true, true>(s, keys, vectors) : weigh<true, false>(s, keys, vectors);
  } else {
    is_partial ? weigh<false, true>(s, keys, vectors) : weigh<false, false>(s, keys, vectors);
  }
}

template <class T>
static void attend_block(const AttentionParams& p, int64_t batch, int64_t head, int64_t first_row, Scratch& s) {
  const int rows = static_cast<int>(p.q_len - first_row < kBlockRows ? p.q_len - first_row : kBlockRows);
  const int vectors = (rows + kLanes - 1) / kLanes;
  const int64_t kv_head = p.kv_head(head);
  const T* q = rows_of(static_cast<const T*>(p.q), p.q_strides, batch, head) + first_row * p.q_strides.row;
  const T* k = rows_of(static_cast<const T*>(p.k), p.k_strides, batch, kv_head);
  const T* v = rows_of(static_cast<const T*>(p.v), p.v_strides, batch, kv_head);
  T* out = rows_of(static_cast<T*>(p.out), p.out_strides, batch, head) + first_row * p.out_strides.row;

  load_query(q, p.q_strides.row, rows, vectors * kLanes, p.head_dim, p.scale, s.query);
  memset(s.out, 0, sizeof(float) * kBlockRows * p.head_dim);
  for (int i = 0; i < vectors; ++i) s.softmax[i].reset();

  const int64_t key_end = p.mask.key_end(first_row + rows - 1, p.k_len);
  for (int64_t key = 0; key < key_end; key += kTileKeys) {
    const int keys = static_cast<int>(key_end - key < kTileKeys ? key_end - key : kTileKeys);
    const Tile tile{p.mask.offset(batch, head), first_row, key, rows, keys};
    const TileClass tile_class = classify(p.mask, tile, s.keep);
    if (tile_class == TileClass::kSkip) continue;
    if (p.mask.is_additive()) gather_bias(p.mask, tile, s.bias);

    int64_t k_stride = p.k_strides.row, v_stride = p.v_strides.row;
    const float* k_tile = as_floats(k + key * k_stride, k_stride, keys, p.head_dim, s.keys, &k_stride);
    const float* v_tile = as_floats(v + key * v_stride, v_stride, keys, p.head_dim, s.values, &v_stride);
    multiply(k_tile, k_stride, 1, s.query, p.head_dim, nullptr, s.scores, keys, vectors);
    weigh(s, keys, vectors, p.mask.is_additive(), tile_class == TileClass::kPartial);
    multiply(v_tile, 1, v_stride, s.scores, keys, s.correction, s.out, p.head_dim, vectors);
  }

  for (int d = 0; d < p.head_dim; ++d) {
    for (int i = 0; i < vectors; ++i) {
      float* column = s.out + d * kBlockRows + i * kLanes;
      store(column, s.softmax[i].normalise(load(column)));
    }
  }
  store_out(s.out, rows, p.head_dim, out, p.out_strides.row);
}

static void attend(const AttentionParams& p, int64_t begin, int64_t end, float* memory) {
  Scratch scratch(memory, p.head_dim);
  const int64_t blocks = row_blocks(p);
  for (int64_t piece = begin; piece < end; ++piece) {
    const int64_t head = piece / blocks;
    const int64_t first_row = piece % blocks * kBlockRows;
    switch (p.dtype) {
      case DataType::kFloat32:
        attend_block<float>(p, head / p.heads, head % p.heads, first_row, scratch);
        break;
      case DataType::kBFloat16:
        attend_block<BFloat16>(p, head / p.heads, head % p.heads, first_row, scratch);
        break;
      case DataType::kFloat16:
        attend_block<Float16>(p, head / p.heads, head % p.heads, first_row, scratch);
        break;
    }
  }
}

}  // namespace FA_ISA
}  // namespace fused_attention
