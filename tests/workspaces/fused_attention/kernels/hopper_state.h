// The state of an emulated thread block: fibers for its threads, shared memory, barriers, and pending asynchronous work.
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
constexpr uint32_t kBase = 3 * 1024;  // of shared memory; not zero, so that an address is no offset
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
  bool (*holds)(const void*);  // whether its `condition` holds; null: it does not wait
  const void* condition;
  uint32_t sent[2];  // what it sends to its neighbours, by the parity of `exchanges`
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

}  // namespace emulation
