// A block of the emulated Hopper (hopper_emulation.h): TMA loads, barriers, and the scheduler of its threads.
//
// Every TMA load poisons its target until it lands; mbarriers count arrivals and bytes. Asynchronous work is done as soon
// as possible, or as late as allowed (`late`): a missing wait shows in one of them, since work that is too early reads
// poison. The emulation reports a deadlock.
#pragma once

#include "hopper_products.h"

namespace emulation {

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
