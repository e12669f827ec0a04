// The functions of cuda/instructions.cuh under emulation, from the PTX ISA's tables of fragment layouts alone: a table
// says which row and column each element of each lane is, and a product is the sum that a matrix product is.
#pragma once

#include "cuda_emulation.h"
#include "numeric.h"

namespace fused_attention {

struct Words4 {
  uint32_t x[4];
};

inline unsigned char* shared_at(uint32_t offset, uint32_t bytes) {
  if (offset % bytes != 0 || offset + bytes > emulation::kSharedBytes) {
    std::fprintf(stderr, "shared memory has no aligned %u bytes at %u\n", bytes, offset);
    std::abort();
  }
  return emulation::shared_memory + offset;
}

inline uint32_t shared_offset(const void* pointer) {
  return static_cast<uint32_t>(static_cast<const unsigned char*>(pointer) - emulation::shared_memory);
}

inline unsigned block_index() {
  return blockIdx.x;
}

inline void store_shared(uint32_t offset, const Words4& w) {
  std::memcpy(shared_at(offset, 16), w.x, 16);
}

inline void store_shared(uint32_t offset, uint32_t word) {
  std::memcpy(shared_at(offset, 4), &word, 4);
}

inline Words4 load_shared(uint32_t offset) {
  Words4 w;
  std::memcpy(w.x, shared_at(offset, 16), 16);
  return w;
}

inline uint32_t load_shared_word(uint32_t offset) {
  uint32_t word;
  std::memcpy(&word, shared_at(offset, 4), 4);
  return word;
}

inline void load_shared_pair(uint32_t offset, uint32_t* words) {
  std::memcpy(words, shared_at(offset, 8), 8);
}

inline void check_aligned(const void* pointer) {
  if (reinterpret_cast<uintptr_t>(pointer) % 16 != 0) {
    std::fprintf(stderr, "16 bytes are read or written at %p\n", pointer);
    std::abort();
  }
}

inline Words4 load_global(const void* pointer) {
  check_aligned(pointer);
  Words4 w;
  std::memcpy(w.x, pointer, 16);
  return w;
}

inline void store_global(void* pointer, const Words4& w) {
  check_aligned(pointer);
  std::memcpy(pointer, w.x, 16);
}

inline void finish_copy(const emulation::Copy& copy) {
  store_shared(copy.offset, copy.source ? load_global(copy.source) : Words4{{0, 0, 0, 0}});
}

inline void copy_async(uint32_t offset, const void* pointer, bool inside) {
  const emulation::Copy copy{offset, inside ? pointer : nullptr};
  if (emulation::block.late) {
    emulation::block.copies[threadIdx.x].push_back(copy);
  } else {
    finish_copy(copy);
  }
}

inline void wait_for_copies() {
  for (const emulation::Copy& copy : emulation::block.copies[threadIdx.x]) finish_copy(copy);
  emulation::block.copies[threadIdx.x].clear();
}

inline float exp2_approximate(float x) {
  return std::exp2(x);
}

template <class T>
uint32_t pack(float low, float high) {
  return from_float<T>(low).bits | static_cast<uint32_t>(from_float<T>(high).bits) << 16;
}

inline void load_matrices_as(uint32_t offset, uint32_t* words, bool transposed) {
  const auto lanes = emulation::exchange(&offset, 1);
  const unsigned lane = threadIdx.x % 32;
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    uint16_t pair[2];
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned row = transposed ? 2 * (lane % 4) + i : lane / 4, column = transposed ? lane / 4 : 2 * (lane % 4) + i;
      std::memcpy(&pair[i], shared_at(lanes[8 * matrix + row][0], 16) + 2 * column, 2);
    }
    std::memcpy(&words[matrix], pair, 4);
  }
}

inline void load_matrices(uint32_t offset, uint32_t* words) {
  load_matrices_as(offset, words, false);
}

inline void load_matrices_transposed(uint32_t offset, uint32_t* words) {
  load_matrices_as(offset, words, true);
}

template <class T>
float element(const uint32_t* words, int i) {
  return to_float(T{static_cast<uint16_t>(words[i / 2] >> (16 * (i % 2)))});
}

// Which element of which lane is at a row and column of an operand.
struct Owner {
  uint8_t lane, element;
};

// mma.m16n8k16 and, with k of 8, m16n8k8.
template <int kDepth>
struct Owners {
  Owner left[16][kDepth], right[8][kDepth];  // by row, and by column

  Owners() {
    for (uint8_t lane = 0; lane < 32; ++lane) {
      for (uint8_t i = 0; i < kDepth / 2; ++i) {
        left[lane / 4 + (i / 2 % 2) * 8][lane % 4 * 2 + i % 2 + i / 4 * 8] = Owner{lane, i};
      }
      for (uint8_t i = 0; i < kDepth / 4; ++i) right[lane / 4][lane % 4 * 2 + i % 2 + i / 2 * 8] = Owner{lane, i};
    }
  }
};

template <class T, int kDepth>
void multiply_warp(float* c, const uint32_t* a, const uint32_t* b) {
  static const Owners<kDepth> owners;
  constexpr int kLeft = kDepth / 4, kRight = kDepth / 8;  // words a lane
  uint32_t words[kLeft + kRight];
  std::memcpy(words, a, sizeof *a * kLeft);
  std::memcpy(words + kLeft, b, sizeof *b * kRight);
  const auto lanes = emulation::exchange(words, kLeft + kRight);
  // The two rows and columns whose products this lane accumulates.
  const int lane = threadIdx.x % 32;
  float rows[2][kDepth], columns[2][kDepth];
  for (int i = 0; i < 2; ++i) {
    for (int k = 0; k < kDepth; ++k) {
      const Owner left = owners.left[lane / 4 + 8 * i][k], right = owners.right[lane % 4 * 2 + i][k];
      rows[i][k] = element<T>(lanes[left.lane], left.element);
      columns[i][k] = element<T>(lanes[right.lane] + kLeft, right.element);
    }
  }
  for (int i = 0; i < 4; ++i) {
    double sum = 0;
    for (int k = 0; k < kDepth; ++k) sum += static_cast<double>(rows[i / 2][k]) * columns[i % 2][k];
    c[i] = static_cast<float>(c[i] + sum);
  }
}

template <class T>
void mma_16816(float* c, const uint32_t* a, const uint32_t* b) {
  multiply_warp<T, 16>(c, a, b);
}

inline void mma_1688(float* c, const uint32_t* a, uint32_t b) {
  multiply_warp<Float16, 8>(c, a, &b);
}

// Rounds to nearest, ties away from zero.
inline uint32_t to_tf32(float x) {
  return (bits_of(x) + 0x1000u) & 0xffffe000u;
}

// mma.m16n8k8 with .tf32.
inline void mma_1688_tf32(float* c, const uint32_t* a, const uint32_t* b) {
  const uint32_t words[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
  const auto lanes = emulation::exchange(words, 6);
  const int lane = threadIdx.x % 32;
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    double sum = 0;
    for (int k = 0; k < 8; ++k) {
      const float left = from_bits(lanes[row % 8 * 4 + k % 4][row / 8 + k / 4 * 2]);
      sum += static_cast<double>(left) * from_bits(lanes[column * 4 + k % 4][4 + k / 4]);
    }
    c[i] = static_cast<float>(c[i] + sum);
  }
}

// mma.m8n8k4: a's row, and b's column or row, belong to a lane of the quad-pair, the accumulators as tabled.
inline void multiply_quad_pair(float* c, const uint32_t* a, const uint32_t* b, bool b_by_rows) {
  const uint32_t words[4] = {a[0], a[1], b[0], b[1]};
  const auto lanes = emulation::exchange(words, 4);
  const int lane = threadIdx.x % 32, first = lane / 4 % 4 * 4;
  const auto owner = [first](int index) { return first + index % 4 + (index < 4 ? 0 : 16); };
  for (int i = 0; i < 8; ++i) {
    const int row = (lane & 1) + (i & 2) + (lane < 16 ? 0 : 4), column = (i & 4) + (lane & 2) + (i & 1);
    double sum = 0;
    for (int k = 0; k < 4; ++k) {
      const float left = element<Float16>(lanes[owner(row)], k);
      const float right = b_by_rows ? element<Float16>(lanes[first + k + (column < 4 ? 0 : 16)] + 2, column % 4)
                                    : element<Float16>(lanes[owner(column)] + 2, k);
      sum += static_cast<double>(left) * right;
    }
    c[i] = static_cast<float>(c[i] + sum);
  }
}

inline void mma_884_columns(float* c, const uint32_t* a, const uint32_t* b) {
  multiply_quad_pair(c, a, b, false);
}

inline void mma_884_rows(float* c, const uint32_t* a, const uint32_t* b) {
  multiply_quad_pair(c, a, b, true);
}

}  // namespace fused_attention
