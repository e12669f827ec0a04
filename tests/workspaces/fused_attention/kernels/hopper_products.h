// wgmma of an emulated thread block. It reads operands through their descriptors and the 128-byte swizzle, with the layouts
// of the PTX ISA, and writes the accumulators as early or as late as the rules allow.
#pragma once

#include "hopper_state.h"

namespace emulation {

inline float half_to_float(uint16_t bits) {
  return fused_attention::to_float(fused_attention::Float16{bits});
}

inline float bfloat_to_float(uint16_t bits) {
  return fused_attention::to_float(fused_attention::BFloat16{bits});
}

inline uint16_t element(uint32_t address) {
  const int64_t offset = static_cast<int64_t>(swizzle(address)) - kBase;
  if (offset < 0 || offset + 2 > kSharedBytes) fail("a matrix descriptor points out of shared memory");
  uint16_t bits;
  std::memcpy(&bits, &block.shared[offset], 2);
  return bits;
}

struct Operand {
  uint32_t start, leading, stride;

  explicit Operand(uint64_t descriptor)
      : start((descriptor & 0x3fff) << 4), leading((descriptor >> 16 & 0x3fff) << 4),
        stride((descriptor >> 32 & 0x3fff) << 4) {
    if (descriptor >> 62 != 1) fail("a matrix descriptor does not say 128-byte swizzle");
  }

  // Element `k` of row `i`, rows running over lines of memory.
  uint16_t along_k(int i, int k) const { return element(start + i / 8 * stride + i % 8 * kRowBytes + k * 2); }

  // The same where rows run along memory: panels of 64 rows, groups of eight elements.
  uint16_t along_rows(int i, int k) const {
    return element(start + i / kPanel * leading + i % kPanel * 2 + k / 8 * stride + k % 8 * kRowBytes);
  }
};

// The product number `which` of the oldest committed group of `count` threads: a warpgroup, or a warp of it, which
// makes 16 of the 64 rows.
inline void multiply(int first_thread, int count, size_t which) {
  const Product& any = block.threads[first_thread].committed.front()[which];
  float left[64][kStep];
  std::vector<float> right(any.columns * kStep);
  const Operand b(any.right);
  for (int n = 0; n < any.columns; ++n) {
    for (int k = 0; k < kStep; ++k) {
      right[n * kStep + k] = any.to_float(any.right_is_transposed ? b.along_rows(n, k) : b.along_k(n, k));
    }
  }
  for (int i = 0; i < count; ++i) {
    const Product& product = block.threads[first_thread + i].committed.front()[which];
    const int t = (first_thread + i) % kWarpgroup;
    if (product.right != any.right || product.left != any.left) fail("threads of a wgmma differ in descriptors");
    if (!product.registers) continue;
    for (int r = 0; r < 4; ++r) {
      for (int e = 0; e < 2; ++e) {
        const int row = t / 32 * 16 + t % 32 / 4 + r % 2 * 8, k = t % 4 * 2 + r / 2 * 8 + e;
        left[row][k] = any.to_float(static_cast<uint16_t>(product.registers[r] >> (16 * e)));
      }
    }
  }
  if (!any.registers) {
    const Operand a(any.left);
    for (int row = 0; row < 64; ++row) {
      for (int k = 0; k < kStep; ++k) left[row][k] = any.to_float(a.along_k(row, k));
    }
  }
  for (int i = 0; i < count; ++i) {
    const Product& product = block.threads[first_thread + i].committed.front()[which];
    const int t = (first_thread + i) % kWarpgroup;
    for (int r = 0; r < product.columns / 2; ++r) {
      const int row = t / 32 * 16 + t % 32 / 4 + r / 2 % 2 * 8, column = r / 4 * 8 + t % 4 * 2 + r % 2;
      float sum = product.accumulate ? product.accumulator[r] : 0.0f;
      for (int k = 0; k < kStep; ++k) sum += left[row][k] * right[column * kStep + k];
      product.accumulator[r] = sum;
    }
  }
}

// Does the oldest groups of products of `count` threads, down to `remaining`.
inline void do_products(int first_thread, int count, size_t remaining) {
  while (block.threads[first_thread].committed.size() > remaining) {
    const size_t products = block.threads[first_thread].committed.front().size();
    for (size_t which = 0; which < products; ++which) multiply(first_thread, count, which);
    for (int i = 0; i < count; ++i) block.threads[first_thread + i].committed.pop_front();
  }
}

// Rounds of the scheduler by which work is late: mostly a few, sometimes very.
inline int delay() {
  block.random = block.random * 1664525u + 1013904223u;
  const int drawn = static_cast<int>(block.random >> 16);
  return block.late ? drawn % 40 * (drawn / 64 % 4 == 0 ? 10 : 1) : 0;
}

inline void do_due_products() {
  for (int group = 0; group < 3; ++group) {
    if (block.products_delay[group] < 0) continue;
    ++block.progress;
    if (block.products_delay[group]-- > 0) continue;
    do_products(group * kWarpgroup, kWarpgroup, block.products_left[group]);
    ++block.products_done[group];
  }
}

// As soon as can be: when a warp's threads have all queued them, whatever the other warps do.
inline void do_products_now() {
  const int warp = block.current / 32;
  const int64_t mine = ++self().waits;
  if (++block.warps_ready[warp] == mine * 32) {
    do_products(warp * 32, 32, 0);
    block.warps_done[warp] = mine;
  }
  wait_until([=] { return block.warps_done[warp] >= mine; });
}

// As late as can be: all threads of a warpgroup come here, and leave when no more than `remaining` groups are left.
inline void wait_for_products(size_t remaining) {
  const int group = block.current / kWarpgroup;
  const int64_t mine = ++self().waits;
  if (++block.products_ready[group] == mine * kWarpgroup) {
    block.products_left[group] = remaining;
    block.products_delay[group] = delay();
  }
  wait_until([=] { return block.products_done[group] >= mine; });
}

}  // namespace emulation
