// The portable CPU kernel against float64, as a program: it runs under an emulator of another processor, where Python
// does not. Prints each case that is wrong; the exit code is 1 if there is one.
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

#include "cpu/plan.h"

using namespace fused_attention;

namespace {

struct Case {
  int64_t batch, heads, kv_heads, q_len, k_len;
  int head_dim;
  bool causal, has_structure, has_bias;
};

std::mt19937 generator(1);

template <class T>
std::vector<T> random_values(int64_t size) {
  std::normal_distribution<float> normal;
  std::vector<T> values(static_cast<size_t>(size));
  for (T& value : values) value = from_float<T>(normal(generator));
  return values;
}

// Row-major [batch, heads, rows, head_dim].
Strides strides_of(int64_t heads, int64_t rows, int64_t dim) {
  return Strides{heads * rows * dim, rows * dim, dim};
}

template <class T>
std::vector<double> expected_row(const AttentionParams& p, int64_t batch, int64_t head, int64_t row) {
  const T* q = rows_of(static_cast<const T*>(p.q), p.q_strides, batch, head) + row * p.q_strides.row;
  const T* k = rows_of(static_cast<const T*>(p.k), p.k_strides, batch, p.kv_head(head));
  const T* v = rows_of(static_cast<const T*>(p.v), p.v_strides, batch, p.kv_head(head));
  std::vector<double> scores(static_cast<size_t>(p.k_len), -INFINITY);
  double maximum = -INFINITY;
  for (int64_t key = 0; key < p.k_len; ++key) {
    if (p.mask.causal && key > row) continue;
    if (p.structure.exists() && !attends(p.structure, batch, row, key)) continue;
    double score = 0;
    for (int d = 0; d < p.head_dim; ++d) score += double{to_float(q[d])} * to_float(k[key * p.k_strides.row + d]);
    score *= p.scale;
    if (p.mask.is_additive()) score += p.mask.element(row * p.mask.row_stride + key);
    scores[static_cast<size_t>(key)] = score;
    maximum = std::max(maximum, score);
  }
  std::vector<double> out(static_cast<size_t>(p.head_dim));
  if (maximum == -INFINITY) return out;
  double total = 0;
  for (double score : scores) total += std::exp(score - maximum);
  for (int64_t key = 0; key < p.k_len; ++key) {
    const double weight = std::exp(scores[static_cast<size_t>(key)] - maximum) / total;
    for (int d = 0; d < p.head_dim; ++d) out[static_cast<size_t>(d)] += weight * to_float(v[key * p.v_strides.row + d]);
  }
  return out;
}

template <class T>
bool is_right(const Case& c, DataType dtype, double rounding) {
  const auto q = random_values<T>(c.batch * c.heads * c.q_len * c.head_dim);
  const auto k = random_values<T>(c.batch * c.kv_heads * c.k_len * c.head_dim);
  const auto v = random_values<T>(c.batch * c.kv_heads * c.k_len * c.head_dim);
  const auto bias = random_values<float>(c.q_len * c.k_len);
  std::vector<T> out(q.size(), from_float<T>(NAN));
  // A window of 9 keys and every 5th key.
  const std::vector<int64_t> words{kStructureVersion, 3, 1, -9, 0, 0, 2, 5, 0, 0, 14, 0, 0, 0};

  AttentionParams p{};
  p.q = q.data();
  p.k = k.data();
  p.v = v.data();
  p.out = out.data();
  p.q_strides = p.out_strides = strides_of(c.heads, c.q_len, c.head_dim);
  p.k_strides = p.v_strides = strides_of(c.kv_heads, c.k_len, c.head_dim);
  p.batch = c.batch;
  p.heads = c.heads;
  p.kv_heads = c.kv_heads;
  p.q_len = p.q_rows = c.q_len;
  p.k_len = p.k_rows = c.k_len;
  p.head_dim = c.head_dim;
  p.scale = 1 / std::sqrt(static_cast<float>(c.head_dim));
  p.dtype = dtype;
  p.mask.causal = c.causal;
  if (c.has_bias) {
    p.mask.kind = MaskKind::kFloat32;
    p.mask.data = bias.data();
    p.mask.row_stride = c.k_len;
    p.mask.key_stride = 1;
  }
  if (c.has_structure) p.structure = Structure{words.data(), static_cast<int64_t>(words.size())};

  const CpuKernel& kernel = select_kernel(dtype);
  const Plans plans(p, kernel.costs);
  const Problem problem = plans.problem(p);
  std::vector<float> memory(static_cast<size_t>(kernel.scratch_floats(problem)) + kScratchAlignment, NAN);
  const uintptr_t start = (reinterpret_cast<uintptr_t>(memory.data()) + kScratchAlignment - 1) & -kScratchAlignment;
  kernel.attend(problem, Position{0, 0}, Position{c.batch * c.heads, 0}, reinterpret_cast<float*>(start));

  double worst = 0;
  for (int64_t batch = 0; batch < c.batch; ++batch) {
    for (int64_t head = 0; head < c.heads; ++head) {
      for (int64_t row = 0; row < c.q_len; ++row) {
        const std::vector<double> expected = expected_row<T>(p, batch, head, row);
        const T* found = rows_of(out.data(), p.out_strides, batch, head) + row * p.out_strides.row;
        for (int d = 0; d < c.head_dim; ++d) {
          const double allowed = rounding * std::abs(expected[static_cast<size_t>(d)]) + 2e-5;
          const double error = std::abs(to_float(found[d]) - expected[static_cast<size_t>(d)]) / allowed;
          // Written so that a NaN is the worst.
          if (!(error <= worst)) worst = error;
        }
      }
    }
  }
  if (worst <= 1) return true;
  std::printf("dtype %d, %d x %d x %d x %d x %d, causal %d, structure %d, bias %d: %g times the error allowed\n",
              static_cast<int>(dtype), static_cast<int>(c.batch), static_cast<int>(c.heads), static_cast<int>(c.q_len),
              static_cast<int>(c.k_len), c.head_dim, c.causal, c.has_structure, c.has_bias, worst);
  return false;
}

}  // namespace

int main() {
  const Case cases[] = {
      {1, 1, 1, 1, 1, 1, false, false, false},      {2, 2, 1, 33, 70, 50, false, false, false},
      {1, 2, 2, 70, 70, 64, true, false, false},    {1, 1, 1, 100, 130, 32, true, true, false},
      {1, 1, 1, 20, 110, 129, false, false, true},
  };
  bool all_right = true;
  for (const Case& c : cases) {
    all_right &= is_right<float>(c, DataType::kFloat32, 1e-6);
    all_right &= is_right<BFloat16>(c, DataType::kBFloat16, 1.01 / 256);
    all_right &= is_right<Float16>(c, DataType::kFloat16, 1.01 / 2048);
  }
  std::printf("%s\n", select_kernel(DataType::kFloat32).capability);
  return all_right ? 0 : 1;
}
