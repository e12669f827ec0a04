// Runs a CUDA kernel on the CPU: each thread of a block is a fiber, and a barrier or an exchange within a warp switches
// to the next one. Blocks run one after the other. It shows that the index arithmetic, the barriers, the reductions and
// the fragments' layouts are right; it knows nothing of warps in lockstep, memory order or speed.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)

struct Index {
  unsigned x;
};

static Index threadIdx, blockIdx, gridDim;

namespace emulation {

constexpr size_t kStackBytes = 128 * 1024;
constexpr size_t kSharedBytes = 160 * 1024;
constexpr int kMaxWords = 48;  // that a lane gives to one exchange

struct Fiber {
  ucontext_t start;
  jmp_buf state;
  bool started, finished;
};

// What the lanes of a warp give one another. Two slots: a lane may begin the next exchange while others read.
struct Warp {
  uint32_t words[2][32][kMaxWords];
  unsigned arrived, exchanges;
};

// A copy on its way: to an offset in shared memory, null for zeros.
struct Copy {
  uint32_t offset;
  const void* source;
};

struct Block {
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  std::vector<std::vector<Copy>> copies;
  std::function<void()> body;
  ucontext_t caller;
  unsigned arrived, barriers, finished;
  bool descending, late;
};

static Block block;
alignas(128) static unsigned char shared_memory[kSharedBytes];

// Switching costs two system calls by swapcontext, and none by longjmp.
inline void run(unsigned next) {
  Fiber& fiber = block.fibers[next];
  threadIdx.x = next;
  if (!fiber.started) {
    fiber.started = true;
    setcontext(&fiber.start);
  }
  _longjmp(fiber.state, 1);
}

inline void run_next(unsigned self) {
  const unsigned count = static_cast<unsigned>(block.fibers.size());
  for (unsigned step = 1; step <= count; ++step) {
    const unsigned next = (self + (block.descending ? count - step % count : step)) % count;
    if (!block.fibers[next].finished) run(next);
  }
  setcontext(&block.caller);
}

inline void yield() {
  const unsigned self = threadIdx.x;
  if (_setjmp(block.fibers[self].state) == 0) run_next(self);
}

inline void enter() {
  block.body();
  ++block.finished;
  block.fibers[threadIdx.x].finished = true;
  run_next(threadIdx.x);
}

inline void wait_for_block() {
  const unsigned count = static_cast<unsigned>(block.fibers.size());
  if (++block.arrived == count) {
    block.arrived = 0;
    ++block.barriers;
    return;
  }
  for (const unsigned barrier = block.barriers; barrier == block.barriers;) {
    if (block.finished != 0) {
      std::fprintf(stderr, "%u of %u threads left while others wait at a barrier\n", block.finished, count);
      std::abort();
    }
    yield();
  }
}

// Gives `count` words to the warp. Returns those of all its lanes.
inline const uint32_t (*exchange(const uint32_t* words, int count))[kMaxWords] {
  const unsigned lane = threadIdx.x % 32;
  Warp& warp = block.warps[threadIdx.x / 32];
  const unsigned number = warp.exchanges;
  std::memcpy(warp.words[number % 2][lane], words, count * sizeof *words);
  if (++warp.arrived == 32) {
    warp.arrived = 0;
    ++warp.exchanges;
  }
  while (warp.exchanges == number) yield();
  return warp.words[number % 2];
}

// A missing barrier mostly shows as a difference between the two orders of threads, or, `late`, when asynchronous
// copies are made as late as they may be. Shared memory begins as NaN.
inline void run_block(unsigned threads, bool descending, bool late, const std::function<void()>& body) {
  static std::vector<char> stacks;
  stacks.resize(threads * kStackBytes);
  block.fibers.assign(threads, Fiber());
  block.warps.assign((threads + 31) / 32, Warp());
  block.copies.assign(threads, std::vector<Copy>());
  block.body = body;
  block.arrived = block.barriers = block.finished = 0;
  block.descending = descending;
  block.late = late;
  std::memset(shared_memory, 0xff, sizeof shared_memory);
  for (unsigned i = 0; i < threads; ++i) {
    getcontext(&block.fibers[i].start);
    block.fibers[i].start.uc_stack.ss_sp = &stacks[i * kStackBytes];
    block.fibers[i].start.uc_stack.ss_size = kStackBytes;
    makecontext(&block.fibers[i].start, enter, 0);
  }
  volatile bool begun = false;
  getcontext(&block.caller);
  if (!begun) {
    begun = true;
    run(descending ? threads - 1 : 0);
  }
}

}  // namespace emulation

inline void __syncthreads() {
  emulation::wait_for_block();
}

inline void __syncwarp() {
  emulation::exchange(nullptr, 0);
}

template <class T>
T __shfl_xor_sync(unsigned, T x, int lanes, int = 32) {
  uint32_t word;
  std::memcpy(&word, &x, sizeof word);
  const uint32_t other = emulation::exchange(&word, 1)[(threadIdx.x % 32) ^ lanes][0];
  std::memcpy(&x, &other, sizeof x);
  return x;
}

inline unsigned __ballot_sync(unsigned, int predicate) {
  const uint32_t word = predicate != 0;
  const auto lanes = emulation::exchange(&word, 1);
  unsigned result = 0;
  for (unsigned lane = 0; lane < 32; ++lane) result |= lanes[lane][0] << lane;
  return result;
}
