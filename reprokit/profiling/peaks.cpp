// What the processors do at most: loops of the bundled extension's benchmark on several threads at once.
//   peaks THREADS...
// prints a JSON object a line. A thread's rate is its work divided by its own CPU time. The best of three rounds counts.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "rates.h"

using namespace fused_attention_bench;

namespace {

constexpr int64_t kRounds = 4000000;

// The last caches together: large processors have one for each group of cores.
int64_t cache_bytes() {
  std::set<std::string> groups;
  for (int64_t cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF); ++cpu) {
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index3/shared_cpu_list");
    std::string group;
    if (std::getline(file, group)) groups.insert(group);
  }
  const int64_t count = std::max<int64_t>(1, static_cast<int64_t>(groups.size()));
  return count * std::max<int64_t>(0, static_cast<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE)));
}

// Of each of the two buffers: four times the caches, as the STREAM benchmark asks.
int64_t buffer_bytes() { return std::max<int64_t>(int64_t{1} << 27, 4 * cache_bytes()); }

int64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  int64_t kilobytes = 0;
  while (file >> word) {
    if (word == "MemAvailable:" && file >> kilobytes) return kilobytes << 10;
  }
  return std::numeric_limits<int64_t>::max();
}

// The sum of what `rate(thread)` gives, all threads at once.
template <class Rate>
double together(int threads, const Rate& rate) {
  double best = 0;
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::vector<double> rates(static_cast<size_t>(threads), 0.0);
    std::atomic<int> waiting(threads);
    std::vector<std::thread> running;
    for (int i = 0; i < threads; ++i) {
      running.emplace_back([&, i] {
        --waiting;
        while (waiting > 0) std::this_thread::yield();
        rates[static_cast<size_t>(i)] = rate(i);
      });
    }
    for (std::thread& each : running) each.join();
    double sum = 0;
    for (const double each : rates) sum += each;
    best = std::max(best, sum);
  }
  return best;
}

}  // namespace

int main(int count, char** arguments) {
  const int64_t bytes = buffer_bytes();
  if (2 * bytes > available_bytes()) {
    std::fprintf(stderr, "%lld MB of memory are available, and two buffers larger than the caches take %lld MB\n",
                 static_cast<long long>(available_bytes() >> 20), static_cast<long long>(bytes >> 19));
    return 1;
  }
  const std::vector<char> from(static_cast<size_t>(bytes), 1);
  std::vector<char> to(static_cast<size_t>(bytes), 1);
  const Loop fma = fastest_loop(false), dot = fastest_loop(true);
  for (int k = 1; k < count; ++k) {
    const int threads = std::atoi(arguments[k]);
    std::vector<float> sinks(static_cast<size_t>(threads), 0.0f);
    const auto loop = [&](const Loop& which) {
      return together(threads, [&](int i) { return measure_loop(which, kRounds, &sinks[static_cast<size_t>(i)]); });
    };
    const int64_t share = bytes / threads / 4096 * 4096;
    const double fp32 = loop(fma), bf16 = loop(dot);
    const double read = together(threads, [&](int i) {
      return measure_read(from.data() + i * share, share, &sinks[static_cast<size_t>(i)]);
    });
    const double copy =
        together(threads, [&](int i) { return measure_copy(to.data() + i * share, from.data() + i * share, share); });
    float used = 0;  // so that no loop is left out
    for (const float sink : sinks) used += sink;
    std::fprintf(stderr, "%g\n", static_cast<double>(used));
    std::printf("{\"threads\": %d, \"peaks\": {\"float32\": %g, \"bfloat16\": %g}, ", threads, fp32 / 1e9, bf16 / 1e9);
    std::printf("\"bandwidths\": {\"read\": %g, \"copy\": %g}, ", read / 1e9, copy / 1e9);
    std::printf("\"how\": {\"float32\": \"%s\", \"bfloat16\": \"%s\"}}\n", fma.isa, dot.isa);
  }
  return 0;
}
