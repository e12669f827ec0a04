// What the benchmark asks of the machine and of torch's allocator, as operators.
#include <ATen/Parallel.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "rates.h"

namespace fused_attention_bench {

namespace {

// The sum over torch's threads, all at once, of what `rate(thread)` gives; each by its own time. The best of three.
template <class Rate>
double sum_over_threads(const Rate& rate) {
  const int64_t threads = at::get_num_threads();
  double best = 0;
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::vector<double> rates(static_cast<size_t>(threads), 0.0);
    at::parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) rates[static_cast<size_t>(i)] = rate(i);
    });
    double sum = 0;
    for (const double r : rates) sum += r;
    best = std::max(best, sum);
  }
  return best;
}

std::string peak_isa(bool bf16) {
  return fastest_loop(bf16).isa;
}

double peak(bool bf16) {
  const Loop loop = fastest_loop(bf16);
  std::vector<float> sinks(static_cast<size_t>(at::get_num_threads()), 0.0f);
  return sum_over_threads([&](int64_t i) { return measure_loop(loop, 4000000, &sinks[static_cast<size_t>(i)]); });
}

double bandwidth(bool copy, int64_t bytes) {
  const int64_t share = bytes / at::get_num_threads() / 4096 * 4096;
  const std::vector<char> from(static_cast<size_t>(bytes), 1);
  std::vector<char> to(static_cast<size_t>(copy ? bytes : 0), 1);
  std::vector<float> sinks(static_cast<size_t>(at::get_num_threads()), 0.0f);
  return sum_over_threads([&](int64_t i) {
    const char* source = from.data() + i * share;
    return copy ? measure_copy(to.data() + i * share, source, share)
                : measure_read(source, share, &sinks[static_cast<size_t>(i)]);
  });
}

struct Account {
  std::mutex mutex;
  int64_t now = 0, peak = 0;
};

// Which arguments tell of an allocation differs between torch versions; the bytes, negative when freed, are second.
template <class Method>
class Reporter;

template <class... Arguments>
class Reporter<void (c10::MemoryReportingInfoBase::*)(Arguments...)> : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(Arguments... arguments) override { count(arguments...); }
  bool memoryProfilingEnabled() const override { return true; }

  Account account;

 private:
  template <class... Rest>
  void count(void*, int64_t bytes, const Rest&...) {
    const std::lock_guard<std::mutex> guard(account.mutex);
    account.now += bytes;
    account.peak = std::max(account.peak, account.now);
  }
};

using AllocatorReporter = Reporter<decltype(&c10::MemoryReportingInfoBase::reportMemoryUsage)>;

// From here to `peak_bytes` the allocator's calls of this thread, and of those that work for it, are counted.
void count_bytes() {
  c10::ThreadLocalDebugInfo::_push(c10::DebugInfoKind::PROFILER_STATE, std::make_shared<AllocatorReporter>());
}

int64_t peak_bytes() {
  const auto info = c10::ThreadLocalDebugInfo::_pop(c10::DebugInfoKind::PROFILER_STATE);
  return static_cast<const AllocatorReporter&>(*info).account.peak;
}

}  // namespace

}  // namespace fused_attention_bench

TORCH_LIBRARY(fused_attention_bench, m) {
  m.def("peak_isa", fused_attention_bench::peak_isa);
  m.def("peak", fused_attention_bench::peak);
  m.def("bandwidth", fused_attention_bench::bandwidth);
  m.def("count_bytes", fused_attention_bench::count_bytes);
  m.def("peak_bytes", fused_attention_bench::peak_bytes);
}
