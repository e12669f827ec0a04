// fused_attention::forward on the CPU.
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "../ops.h"
#include "plan.h"

namespace fused_attention {

namespace {

// The least multiply-adds for a thread, some ten microseconds; with less, starting the thread costs more.
constexpr double kWorkPerThread = 1 << 20;
// The scratch memory that a thread keeps between calls; new memory costs a page fault for every 4 KB.
constexpr size_t kKeptBytes = size_t{16} << 20;

class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::free(memory_); }

  float* floats(size_t count) {
    const size_t bytes = (count * sizeof(float) + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
    if (bytes > bytes_) {
      release();
      if (posix_memalign(&memory_, kScratchAlignment, bytes) != 0) {
        memory_ = nullptr;
        throw std::bad_alloc();
      }
      bytes_ = bytes;
    }
    return static_cast<float*>(memory_);
  }

  void trim() {
    if (bytes_ > kKeptBytes) release();
  }

 private:
  void release() {
    std::free(memory_);
    memory_ = nullptr;
    bytes_ = 0;
  }

  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

// The position after which `target` of the plans' cost is done. Phases of a head stay together.
Position position_of(const Plans& plans, int64_t batch, int64_t heads, double target) {
  const int64_t all = batch * heads;
  for (int64_t index = 0; index < all; ++index) {
    const HeadPlan& plan = plans.of(index / heads, index % heads);
    const double cost = plan.cost.back();
    if (target < cost) {
      if (plan.has_phases) return Position{index + (target > cost / 2), 0};
      const auto at = std::lower_bound(plan.cost.begin(), plan.cost.end(), static_cast<float>(target));
      return Position{index, at - plan.cost.begin()};
    }
    target -= cost;
  }
  return Position{all, 0};
}

void launch(const AttentionParams& params, at::Device) {
  const CpuKernel& kernel = select_kernel(params.dtype);
  const Plans plans(params, kernel.costs);
  const Problem problem = plans.problem(params);
  const int64_t all = params.batch * params.heads;
  double cost = 0.0;
  for (int64_t i = 0; i < all; ++i) cost += plans.of(i / params.heads, i % params.heads).cost.back();
  const size_t floats = kernel.scratch_floats(problem);
  const auto attend = [&](Position from, Position to) {
    static thread_local Scratch scratch;
    kernel.attend(problem, from, to, scratch.floats(floats));
    scratch.trim();
  };

  const double work = cost * kGranule * 2 * params.head_dim;
  const int64_t parts = std::min<int64_t>(at::get_num_threads(), static_cast<int64_t>(work / kWorkPerThread));
  if (parts <= 1 || at::in_parallel_region()) return attend(Position{0, 0}, Position{all, 0});
  // A panel's result does not depend on how the panels are split over threads.
  at::parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
    const auto position = [&](int64_t part) {
      return part == parts ? Position{all, 0} : position_of(plans, params.batch, params.heads, cost * part / parts);
    };
    attend(position(begin), position(end));
  });
}

std::string cpu_capability() {
  return select_kernel(DataType::kBFloat16).capability;
}

}  // namespace

}  // namespace fused_attention

// The CPU kernel of this machine, for the benchmark's records.
TORCH_LIBRARY_FRAGMENT(fused_attention, m) {
  m.def("cpu_capability", fused_attention::cpu_capability);
}

TORCH_LIBRARY_IMPL(fused_attention, CPU, m) {
  m.impl("forward", fused_attention::forward_on<fused_attention::launch>);
}
