// A block of the emulated Hopper (hopper_emulation.h): its threads, each a fiber, and what works beside them.
//
// Shared memory is bytes, poisoned at first and again by every TMA load until it lands; mbarriers count arrivals and
// bytes; wgmma reads its operands through its descriptors and the 128-byte swizzle, by the layouts of the PTX ISA.
// Asynchronous work is done either as soon or as late as the rules allow (`late`), since a missing wait shows in one of
// them: too early, it reads poison; too late, what came after. A block in which nothing moves is reported.
#pragma once

#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <vector>

#include "cuda/hopper/tensor_map.h"
#include "numeric.h"

namespace emulation {

using fused_attention::hopper::kPanel;
using fused_attention::hopper::kRowBytes;
using fused_attention::hopper::kStep;
using fused_attention::hopper::kThreads;
using fused_attention::hopper::kTileKeys;
using fused_attention::hopper::kWarpgroup;
using fused_attention::hopper::swizzle;

constexpr size_t kStackBytes = 64 * 1024;
constexpr uint32_t kBase = 3 * 1024;  // of shared memory: addresses and offsets shall not be taken for each other
constexpr int kSharedBytes = 227 * 1024;

inline void fail(const char* what) {
  std::fprintf(stderr, "hopper emulation: %s\n", what);
  std::abort();
}

struct Product {
  uint64_t left, right;
  const uint32_t* registers;  // of the left operand; null: it is in shared memory
  float* accumulator;
  int columns;
  bool accumulate, right_is_transposed;
  float (*to_float)(uint16_t);
};

struct Thread {
  ucontext_t context;
  bool finished;
  bool (*holds)(const void*);  // what it waits for, asked of `condition`; null: nothing
  const void* condition;
  uint32_t sent[2];  // what it shows to its neighbours, by the parity of how often
  int64_t exchanges;
  std::vector<Product> queued;
  std::deque<std::vector<Product>> committed;
  int64_t waits;  // for products, which a warpgroup does together
  std::vector<int> cleared;  // 16 bytes each of shared memory, which products see after the thread's fence
};

struct MemoryBarrier {
  bool ready;
  int64_t expected, pending, bytes, phases;
};

struct NamedBarrier {
  int64_t arrived, generation;
};

struct Load {
  fused_attention::hopper::TensorMap map;
  int full;
  int target;
  int64_t at[4];
  int delay;  // rounds of the scheduler
};

struct Block {
  std::vector<Thread> threads;
  std::vector<uint8_t> shared;
  std::vector<MemoryBarrier> barriers;  // by offset / 8
  NamedBarrier named[17];
  std::vector<Load> loads;
  ucontext_t scheduler;
  void (*body)(const void*);
  const void* argument;
  int current, index, count;
  int64_t progress;
  int64_t products_ready[3], products_done[3];  // of a warpgroup: threads that came to a wait, and waits that are over
  size_t products_left[3];
  int products_delay[3];  // rounds of the scheduler until they are done; -1: none are due
  int64_t warps_ready[kThreads / 32], warps_done[kThreads / 32];
  bool late;
  uint32_t random;
};

static Block block;

inline Thread& self() {
  return block.threads[block.current];
}

template <class Condition>
bool holds(const void* condition) {
  return (*static_cast<const Condition*>(condition))();
}

template <class Condition>
void wait_until(const Condition& condition) {
  if (!condition()) {
    self().holds = holds<Condition>;
    self().condition = &condition;
    swapcontext(&self().context, &block.scheduler);
    self().holds = nullptr;
  }
  ++block.progress;
}

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

inline void complete(MemoryBarrier& barrier) {
  if (barrier.pending == 0 && barrier.bytes == 0) {
    ++barrier.phases;
    barrier.pending = barrier.expected;
    ++block.progress;
  }
}

inline MemoryBarrier& barrier_at(int offset) {
  MemoryBarrier& barrier = block.barriers[offset / 8];
  if (!barrier.ready) fail("a barrier is used before it is initialised");
  return barrier;
}

// Lands a box of 64 columns by 128 rows; what is outside of the tensor becomes zero.
inline void land(const Load& load) {
  for (int row = 0; row < kTileKeys; ++row) {
    for (int column = 0; column < kPanel; ++column) {
      const int64_t at[4] = {load.at[0] + column, load.at[1] + row, load.at[2], load.at[3]};
      uint16_t bits = 0;
      bool inside = true;
      for (int i = 0; i < 4; ++i) inside &= at[i] >= 0 && at[i] < static_cast<int64_t>(load.map.sizes[i]);
      if (inside) {
        const char* source = static_cast<const char*>(load.map.base) + at[0] * 2;
        for (int i = 0; i < 3; ++i) source += at[i + 1] * static_cast<int64_t>(load.map.strides[i]);
        std::memcpy(&bits, source, 2);
      }
      const uint32_t address = kBase + load.target + row * kRowBytes + column * 2;
      std::memcpy(&block.shared[swizzle(address) - kBase], &bits, 2);
    }
  }
  MemoryBarrier& barrier = barrier_at(load.full);
  barrier.bytes -= kTileKeys * kRowBytes;
  ++block.progress;
  complete(barrier);
}

inline void land_due_loads() {
  for (size_t i = 0; i < block.loads.size();) {
    if (block.loads[i].delay-- > 0) {
      ++i;
      ++block.progress;
      continue;
    }
    land(block.loads[i]);
    block.loads.erase(block.loads.begin() + static_cast<int64_t>(i));
  }
}

inline void enter() {
  block.body(block.argument);
  self().finished = true;
  ++block.progress;
}

inline void run_block(int index, int count, bool late, void (*body)(const void*), const void* argument) {
  std::vector<char> stacks(kThreads * kStackBytes);
  block.threads.assign(kThreads, Thread());
  block.shared.assign(kSharedBytes, 0xff);
  block.barriers.assign(kSharedBytes / 8, MemoryBarrier());
  for (NamedBarrier& barrier : block.named) barrier = NamedBarrier();
  block.body = body;
  block.argument = argument;
  block.index = index;
  block.count = count;
  block.late = late;
  block.random = 12345u + static_cast<uint32_t>(index);
  for (int group = 0; group < 3; ++group) {
    block.products_done[group] = block.products_ready[group] = 0;
    block.products_delay[group] = -1;
  }
  for (int warp = 0; warp < kThreads / 32; ++warp) block.warps_ready[warp] = block.warps_done[warp] = 0;
  for (int i = 0; i < kThreads; ++i) {
    ucontext_t& context = block.threads[i].context;
    getcontext(&context);
    context.uc_stack.ss_sp = &stacks[i * kStackBytes];
    context.uc_stack.ss_size = kStackBytes;
    context.uc_link = &block.scheduler;
    makecontext(&context, enter, 0);
  }
  for (int left = kThreads; left > 0;) {
    const int64_t before = block.progress;
    left = 0;
    for (int step = 0; step < kThreads; ++step) {
      block.current = late ? kThreads - 1 - step : step;
      Thread& thread = self();
      if (!thread.finished && (!thread.holds || thread.holds(thread.condition))) {
        swapcontext(&block.scheduler, &thread.context);
      }
      left += !thread.finished;
    }
    land_due_loads();
    do_due_products();
    if (left > 0 && block.progress == before) fail("all threads wait for each other");
  }
  for (const NamedBarrier& barrier : block.named) {
    if (barrier.arrived != 0) fail("a named barrier is left half full");
  }
  if (!block.loads.empty()) fail("a load lands after the block's end");
}

}  // namespace emulation
