// Runs a CUDA kernel on the CPU: each thread of a block is a fiber, and a barrier switches to the next one. Blocks run
// one after the other. It shows that the index arithmetic, the barriers and the reductions are right; it knows nothing
// of warps in lockstep, memory order or speed.
#pragma once

#include <ucontext.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(threads)

struct Index {
  unsigned x;
};

static Index threadIdx, blockIdx, gridDim;

namespace emulation {

constexpr size_t kStackBytes = 128 * 1024;

struct Block {
  std::vector<ucontext_t> fibers;
  std::vector<char> finished;
  std::vector<float> exchange;
  ucontext_t scheduler;
  std::function<void()> body;
  unsigned current;
};

static Block block;

inline void enter() {
  block.body();
  block.finished[block.current] = 1;
}

inline void wait_for_all() {
  const unsigned self = threadIdx.x;
  swapcontext(&block.fibers[self], &block.scheduler);
  threadIdx.x = self;
}

// A missing barrier mostly shows as a difference between ascending and descending order of the threads.
inline void run_block(unsigned threads, bool descending, const std::function<void()>& body) {
  std::vector<char> stacks(threads * kStackBytes);
  block.fibers.resize(threads);
  block.finished.assign(threads, 0);
  block.exchange.assign(threads, 0.0f);
  block.body = body;
  for (unsigned i = 0; i < threads; ++i) {
    getcontext(&block.fibers[i]);
    block.fibers[i].uc_stack.ss_sp = &stacks[i * kStackBytes];
    block.fibers[i].uc_stack.ss_size = kStackBytes;
    block.fibers[i].uc_link = &block.scheduler;
    makecontext(&block.fibers[i], enter, 0);
  }
  for (unsigned done = 0; done < threads;) {
    done = 0;
    for (unsigned step = 0; step < threads; ++step) {
      block.current = threadIdx.x = descending ? threads - 1 - step : step;
      swapcontext(&block.scheduler, &block.fibers[block.current]);
      done += block.finished[block.current];
    }
    if (done != 0 && done != threads) {
      std::fprintf(stderr, "%u of %u threads left while others wait at a barrier\n", done, threads);
      std::abort();
    }
  }
}

}  // namespace emulation

inline void __syncthreads() {
  emulation::wait_for_all();
}

// Every thread of the block takes part in each exchange here, so a barrier stands for the warp's.
inline float __shfl_xor_sync(unsigned, float x, int lane, int) {
  emulation::block.exchange[threadIdx.x] = x;
  emulation::wait_for_all();
  const float other = emulation::block.exchange[threadIdx.x ^ lane];
  emulation::wait_for_all();
  return other;
}
