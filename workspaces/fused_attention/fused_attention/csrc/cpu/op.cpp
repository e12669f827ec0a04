// fused_attention's operators on the CPU.
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include "../backward.h"
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
      const int64_t panel = at - plan.cost.begin();
      return panel + 1 == static_cast<int64_t>(plan.cost.size()) ? Position{index + 1, 0} : Position{index, panel};
    }
    target -= cost;
  }
  return Position{all, 0};
}

// Positions between which the parts of a call lie, one part a thread: the cost of all parts is about the same.
std::vector<Position> split(const Plans& plans, const AttentionParams& params, int products) {
  const int64_t all = params.batch * params.heads;
  double cost = 0.0;
  for (int64_t i = 0; i < all; ++i) cost += plans.of(i / params.heads, i % params.heads).cost.back();
  const double work = cost * kGranule * products * params.head_dim;
  const int64_t most = std::min<int64_t>(at::get_num_threads(), static_cast<int64_t>(work / kWorkPerThread));
  const int64_t parts = at::in_parallel_region() ? 1 : std::max<int64_t>(1, most);
  std::vector<Position> positions{Position{0, 0}};
  for (int64_t part = 1; part < parts; ++part) {
    positions.push_back(position_of(plans, params.batch, params.heads, cost * part / parts));
  }
  positions.push_back(Position{all, 0});
  return positions;
}

// Calls visit(float*) with this thread's scratch memory.
template <class Visit>
void with_scratch(int64_t floats, const Visit& visit) {
  static thread_local Scratch scratch;
  visit(scratch.floats(static_cast<size_t>(floats)));
  scratch.trim();
}

void launch(const AttentionParams& params, at::Device) {
  const CpuKernel& kernel = select_kernel(params.dtype);
  const Plans plans(params, kernel.costs);
  const Problem problem = plans.problem(params);
  const int64_t floats = kernel.scratch_floats(problem);
  const std::vector<Position> parts = split(plans, params, 2);
  // A panel's result does not depend on how the panels are split over threads.
  at::parallel_for(0, static_cast<int64_t>(parts.size()) - 1, 1, [&](int64_t begin, int64_t end) {
    with_scratch(floats, [&](float* memory) { kernel.attend(problem, parts[begin], parts[end], memory); });
  });
}

// The key/value heads that the parts share, and each part's sums for them.
struct SharedHeads {
  struct Shared {
    int64_t head;
    std::vector<float*> sums;
  };

  SharedHeads(const std::vector<Position>& parts, const AttentionParams& params) {
    const int64_t group = params.heads / params.kv_heads, count = static_cast<int64_t>(parts.size()) - 1;
    const auto is_inside = [&](Position p) { return p.head % group != 0 || p.panel != 0; };
    first.resize(count);
    last.resize(count);
    std::vector<std::pair<int64_t, float**>> places;
    for (int64_t i = 0; i < count; ++i) {
      const Position from = parts[i], to = parts[i + 1];
      if (from.head == to.head && from.panel == to.panel) continue;
      const bool is_one = is_inside(from) && from.head / group == to.head / group;
      if (is_inside(from)) places.emplace_back(from.head / group, &first[i]);
      if (is_inside(to) && !is_one) places.emplace_back(to.head / group, &last[i]);
    }
    const int64_t floats = 2 * params.k_len * ((params.head_dim + 15) / 16 * 16);
    if (places.empty()) return;
    memory = at::empty({static_cast<int64_t>(places.size()), floats}, at::kFloat);
    for (size_t i = 0; i < places.size(); ++i) {
      *places[i].second = memory.data_ptr<float>() + static_cast<int64_t>(i) * floats;
      if (heads.empty() || heads.back().head != places[i].first) heads.push_back(Shared{places[i].first, {}});
      heads.back().sums.push_back(*places[i].second);
    }
  }

  std::vector<float*> first, last;  // by part; null: none
  std::vector<Shared> heads;
  at::Tensor memory;
};

bool differentiate(const AttentionParams& params, const GradientParams& gradients, at::Device) {
  const CpuKernel& kernel = select_kernel(params.dtype);
  const Plans plans(params, kernel.costs);
  const Problem problem = plans.problem(params);
  const int64_t floats = kernel.gradient_scratch_floats(problem);
  const std::vector<Position> parts = split(plans, params, 5);
  const SharedHeads shared(parts, params);
  // A thread may be given several parts: each has its own sums, so that the result depends on their number alone.
  at::parallel_for(0, static_cast<int64_t>(parts.size()) - 1, 1, [&](int64_t begin, int64_t end) {
    with_scratch(floats, [&](float* memory) {
      for (int64_t i = begin; i < end; ++i) {
        kernel.differentiate(problem, gradients, parts[i], parts[i + 1], memory, shared.first[i], shared.last[i]);
      }
    });
  });
  constexpr int64_t kBlock = 64;
  const int64_t blocks = (params.k_len + kBlock - 1) / kBlock;
  at::parallel_for(0, static_cast<int64_t>(shared.heads.size()) * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const SharedHeads::Shared& one = shared.heads[i / blocks];
      const int64_t batch = one.head / params.kv_heads, from = i % blocks * kBlock;
      const int64_t length = params.cu_k ? params.cu_k[batch + 1] - params.cu_k[batch] : params.k_len;
      kernel.store_key_gradients(problem, gradients, batch, one.head % params.kv_heads, std::min(from, length),
                                 std::min(from + kBlock, length), one.sums.data(), static_cast<int>(one.sums.size()));
    }
  });
  return true;
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
  m.impl("forward_lse", fused_attention::forward_lse_on<fused_attention::launch>);
  m.impl("backward", fused_attention::backward_on<fused_attention::launch, fused_attention::differentiate>);
}
