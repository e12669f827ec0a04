// Matrix products by warps: which lane holds which element, and how operands come from shared memory to registers.
//
// A warp holds blocks of kRows rows by 8 columns of scores or outputs, kAccumulators of them a lane; the left operand
// in words of 16 columns, the right one in blocks of 16 x 8. The element i of a lane lies at
//   row    row_of(lane) + slot_row(slot(i))     a lane has kSlots rows, each in full in the lanes that reduce() spans
//   column column_of(lane) + column(i)          columns come in pairs: column(2 * i + 1) == column(2 * i) + 1
// Source of the layouts: the PTX ISA, "Matrix Fragments for mma.m8n8k4 / m16n8k8 / m16n8k16".
#pragma once

#include "../numeric.h"
#ifndef FUSED_ATTENTION_EMULATED
#include "instructions.cuh"
#endif

namespace fused_attention {

// Rows of D 16-bit units in shared memory, in chunks of 16 bytes. The chunks of a row are permuted by its number,
// so that the same chunk of eight successive rows lies in eight different groups of banks.
template <int D>
struct SharedRows {
  static_assert(D % 64 == 0, "a row fills all banks");
  static constexpr int kChunks = D / 8, kRowBytes = D * 2;

  uint32_t base;  // a multiple of kRowBytes, so that at(row, chunk ^ x) == at(row, chunk) ^ 16 * x

  FA_HOST_DEVICE uint32_t at(int row, int chunk) const {
    return base + static_cast<uint32_t>(row * kRowBytes + (chunk ^ (row & 7)) * 16);
  }
};

// Compute capability 7.5 and up: m16n8k8 for binary16, from 8.0 on m16n8k16 for both types.
template <class T, bool kHasK16>
struct RowFragments {
  static constexpr int kRows = 16, kAccumulators = 4, kSlots = 2, kLeftWords = 4, kRightWords = 2;

  FA_HOST_DEVICE static int row_of(int lane) { return lane / 4; }
  FA_HOST_DEVICE static int column_of(int lane) { return 2 * (lane % 4); }
  FA_HOST_DEVICE static constexpr int slot(int i) { return i / 2; }
  FA_HOST_DEVICE static constexpr int slot_row(int slot) { return 8 * slot; }
  FA_HOST_DEVICE static constexpr int column(int i) { return i % 2; }

  template <class Combine>
  __device__ static float reduce(float x, Combine combine) {
    x = combine(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return combine(x, __shfl_xor_sync(0xffffffffu, x, 2));
  }

  // Where a lane begins to read the left operand's rows from `row` on, the keys and the values.
  template <int D>
  FA_HOST_DEVICE static uint32_t left_at(const SharedRows<D>& rows, int row, int lane) {
    return rows.at(row + lane % 16, lane / 16);
  }
  template <int D>
  FA_HOST_DEVICE static uint32_t keys_at(const SharedRows<D>& keys, int lane) {
    return keys.at(lane / 16 * 8 + lane % 8, lane / 8 % 2);
  }
  template <int D>
  FA_HOST_DEVICE static uint32_t values_at(const SharedRows<D>& values, int lane) {
    return values.at(lane % 16, lane / 16);
  }

  // The m-th 16 rows, dimensions 16 * k to 16 * k + 16.
  template <int D>
  __device__ static void load_left(uint32_t at, int m, int k, uint32_t* words) {
    load_matrices((at ^ (k * 32)) + m * 16 * SharedRows<D>::kRowBytes, words);
  }

  // Of the n-th 16 keys, two blocks: 16 dimensions by 8 keys each.
  template <int D>
  __device__ static void load_keys(uint32_t at, int n, int k, uint32_t* words) {
    load_matrices((at ^ (k * 32)) + n * 16 * SharedRows<D>::kRowBytes, words);
  }

  // Of the k-th 16 keys, two blocks: 16 keys by 8 dimensions each, from dimension 16 * n on.
  template <int D>
  __device__ static void load_values(uint32_t at, int k, int n, uint32_t* words) {
    load_matrices_transposed((at ^ (n * 32)) + k * 16 * SharedRows<D>::kRowBytes, words);
  }

  __device__ static void multiply(float* c, const uint32_t* a, const uint32_t* b) {
    if (kHasK16) {
      mma_16816<T>(c, a, b);
    } else {
      mma_1688(c, a, b[0]);
      mma_1688(c, a + 2, b[1]);
    }
  }
  __device__ static void multiply_keys(float* c, const uint32_t* a, const uint32_t* b) { multiply(c, a, b); }
  __device__ static void multiply_values(float* c, const uint32_t* a, const uint32_t* b) { multiply(c, a, b); }

  // Two neighbouring blocks of weights as a left operand; the registers match already.
  __device__ static void to_left(const float* first, const float* second, int, uint32_t* words) {
    words[0] = pack<T>(first[0], first[1]);
    words[1] = pack<T>(first[2], first[3]);
    words[2] = pack<T>(second[0], second[1]);
    words[3] = pack<T>(second[2], second[3]);
  }
};

// float32, rounded to TF32: m16n8k8, from compute capability 8.0 on. Lane l accumulates the scores of two keys,
// 2 * (l % 4) and one more; as a left operand it needs those of keys l % 4 and l % 4 + 4. No lane passes any on: the
// values' rows are read in the order of the keys that the lanes have.
struct Tf32Fragments : RowFragments<BFloat16, true> {
  static constexpr int kLeftWords = 8, kRightWords = 4;

  template <int D>
  FA_HOST_DEVICE static uint32_t keys_at(const SharedRows<D>& keys, int lane) {
    return keys.at(lane % 8, lane / 8);
  }
  template <int D>
  FA_HOST_DEVICE static uint32_t values_at(const SharedRows<D>& values, int lane) {
    return values.at(2 * (lane % 4), lane / 16) + lane / 4 % 4 * 4;
  }

  __device__ static void load_rounded(uint32_t at, uint32_t* words) {
    load_matrices(at, words);
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = to_tf32(from_bits(words[i]));
  }

  template <int D>
  __device__ static void load_left(uint32_t at, int m, int k, uint32_t* words) {
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      load_rounded((at ^ (k * 64 + step * 32)) + m * 16 * SharedRows<D>::kRowBytes, words + 4 * step);
    }
  }

  template <int D>
  __device__ static void load_keys(uint32_t at, int n, int k, uint32_t* words) {
#pragma unroll
    for (int block = 0; block < 2; ++block) {
      load_rounded((at ^ (k * 64)) + (n * 16 + block * 8) * SharedRows<D>::kRowBytes, words + 4 * block);
    }
  }

  template <int D>
  __device__ static void load_values(uint32_t at, int k, int n, uint32_t* words) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int block = i / 4, row = k * 16 + i / 2 % 2 * 8 + i % 2;
      const uint32_t from = (at ^ (n * 64 + block * 32 + i % 2 * 16)) + row * SharedRows<D>::kRowBytes;
      words[i] = to_tf32(from_bits(load_shared_word(from)));
    }
  }

  __device__ static void multiply(float* c, const uint32_t* a, const uint32_t* b) {
    mma_1688_tf32(c, a, b);
    mma_1688_tf32(c, a + 4, b + 2);
  }
  __device__ static void multiply_keys(float* c, const uint32_t* a, const uint32_t* b) { multiply(c, a, b); }
  __device__ static void multiply_values(float* c, const uint32_t* a, const uint32_t* b) { multiply(c, a, b); }

  __device__ static void to_left(const float* first, const float* second, int, uint32_t* words) {
#pragma unroll
    for (int i = 0; i < 8; ++i) words[i] = to_tf32((i < 4 ? first : second)[i % 2 * 2 + i / 2 % 2]);
  }
};

// Compute capability 7.0: m8n8k4 is four products by eight lanes each, a quad-pair: lanes 4 * i to 4 * i + 3 and those
// 16 above. Each takes eight rows of its own here, all the same right operand.
struct QuadPairFragments {
  static constexpr int kRows = 32, kAccumulators = 8, kSlots = 2, kLeftWords = 8, kRightWords = 8;

  FA_HOST_DEVICE static int quad_row(int lane) { return lane % 4 + lane / 16 * 4; }
  FA_HOST_DEVICE static int row_of(int lane) { return lane / 4 % 4 * 8 + lane / 16 * 4 + lane % 2; }
  FA_HOST_DEVICE static int column_of(int lane) { return lane & 2; }
  FA_HOST_DEVICE static constexpr int slot(int i) { return i / 2 % 2; }
  FA_HOST_DEVICE static constexpr int slot_row(int slot) { return 2 * slot; }
  FA_HOST_DEVICE static constexpr int column(int i) { return i / 4 * 4 + i % 2; }

  template <class Combine>
  __device__ static float reduce(float x, Combine combine) {
    return combine(x, __shfl_xor_sync(0xffffffffu, x, 2));
  }

  template <int D>
  FA_HOST_DEVICE static uint32_t left_at(const SharedRows<D>& rows, int row, int lane) {
    return rows.at(row + lane / 4 % 4 * 8 + quad_row(lane), 0);
  }
  template <int D>
  FA_HOST_DEVICE static uint32_t keys_at(const SharedRows<D>& keys, int lane) {
    return keys.at(quad_row(lane), 0);
  }
  template <int D>
  FA_HOST_DEVICE static uint32_t values_at(const SharedRows<D>& values, int lane) {
    return values.at(lane % 4, 0) + lane / 16 * 8;
  }

  __device__ static void load_row(uint32_t at, int k, int offset, uint32_t* words) {
    const Words4 low = load_shared((at ^ (k * 32)) + offset), high = load_shared((at ^ (k * 32 + 16)) + offset);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[i] = low.x[i];
      words[4 + i] = high.x[i];
    }
  }

  template <int D>
  __device__ static void load_left(uint32_t at, int m, int k, uint32_t* words) {
    load_row(at, k, m * 32 * SharedRows<D>::kRowBytes, words);
  }

  template <int D>
  __device__ static void load_keys(uint32_t at, int n, int k, uint32_t* words) {
    load_row(at, k, n * 16 * SharedRows<D>::kRowBytes, words);
    load_row(at, k, (n * 16 + 8) * SharedRows<D>::kRowBytes, words + 8);
  }

  template <int D>
  __device__ static void load_values(uint32_t at, int k, int n, uint32_t* words) {
#pragma unroll
    for (int block = 0; block < 2; ++block) {
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        // Four rows further, the permutation of chunks differs in its highest bit.
        const int chunk = (2 * n + block) ^ (step % 2 * 4), row = k * 16 + step * 4;
        load_shared_pair((at ^ (chunk * 16)) + row * SharedRows<D>::kRowBytes, words + 8 * block + 2 * step);
      }
    }
  }

  __device__ static void multiply_keys(float* c, const uint32_t* a, const uint32_t* b) {
#pragma unroll
    for (int step = 0; step < 4; ++step) mma_884_columns(c, a + 2 * step, b + 2 * step);
  }
  __device__ static void multiply_values(float* c, const uint32_t* a, const uint32_t* b) {
#pragma unroll
    for (int step = 0; step < 4; ++step) mma_884_rows(c, a + 2 * step, b + 2 * step);
  }

  // A lane has halves of two rows and needs all of one: it swaps a half with the lane two further.
  __device__ static void to_left(const float* first, const float* second, int lane, uint32_t* words) {
    const bool upper = (lane & 2) != 0;
#pragma unroll
    for (int block = 0; block < 2; ++block) {
      const float* c = block == 0 ? first : second;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t row0 = pack<Float16>(c[4 * half], c[4 * half + 1]);      // slot 0
        const uint32_t row2 = pack<Float16>(c[4 * half + 2], c[4 * half + 3]);  // slot 1, two rows below
        const uint32_t other = __shfl_xor_sync(0xffffffffu, upper ? row0 : row2, 2);
        words[4 * block + 2 * half] = upper ? other : row0;
        words[4 * block + 2 * half + 1] = upper ? row2 : other;
      }
    }
  }
};

// Stores two neighbouring elements of a row as T.
template <class T, int D>
__device__ inline void store_pair(T, const SharedRows<D>& rows, int row, int column, float first, float second) {
  store_shared(rows.at(row, column / 8) + column % 8 * 2, pack<T>(first, second));
}
template <int D>
__device__ inline void store_pair(float, const SharedRows<D>& rows, int row, int column, float first, float second) {
  const uint32_t at = rows.at(row, column / 4) + column % 4 * 4;
  store_shared(at, bits_of(first));
  store_shared(at + 4, bits_of(second));
}

}  // namespace fused_attention
