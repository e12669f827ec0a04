// Chooses the plan of each head of a call, and caches plans between calls.
#include <algorithm>
#include <map>
#include <mutex>

#include "bits.h"
#include "plan.h"

namespace fused_attention {

namespace {

// The most elements for a split plan, which needs the bits of the whole mask at once.
constexpr int64_t kMaxSplitLength = 8192;
constexpr size_t kMaxKeptBytes = size_t{64} << 20;

// The mask of one batch element and head.
struct HeadMask {
  const AttentionParams& params;
  int64_t batch, head, q_len, k_len;

  void fill(int64_t row, int64_t rows, bool with_residues, uint64_t* words) const {
    const int64_t width = words_for(k_len);
    if (params.structure.exists()) {
      evaluate_rows(params.structure, batch, row, rows, k_len, with_residues, words);
    } else {
      std::fill_n(words, rows * width, ~uint64_t{0});
      const int last = static_cast<int>(k_len - (width - 1) * 64);
      for (int64_t i = 0; width > 0 && i < rows; ++i) words[i * width + width - 1] = first_bits(last);
    }
    for (int64_t i = 0; params.mask.causal && i < rows; ++i) keep_below(words + i * width, width, row + i + 1);
    if (params.mask.kind != MaskKind::kNone) keep_tensor(row, rows, width, words);
  }

  static void keep_below(uint64_t* words, int64_t width, int64_t key_end) {
    const int64_t whole = key_end / 64;
    if (whole >= width) return;
    words[whole] &= first_bits(static_cast<int>(key_end % 64));
    std::fill(words + whole + 1, words + width, 0);
  }

  void keep_tensor(int64_t row, int64_t rows, int64_t width, uint64_t* words) const {
    const Mask& mask = params.mask;
    for (int64_t i = 0; i < rows; ++i) {
      uint64_t* line = words + i * width;
      if (i > 0 && mask.row_stride == 0) {
        // The row has the same bits as the row before.
        for (int64_t w = 0; w < width; ++w) line[w] &= word(row, w);
        continue;
      }
      for (int64_t w = 0; w < width; ++w) {
        if (line[w]) line[w] &= word(row + i, w);
      }
    }
  }

  // 64 keys of a row of the mask tensor; for an additive mask, the keys whose value is not -inf.
  uint64_t word(int64_t row, int64_t w) const {
    const Mask& mask = params.mask;
    const int64_t at = mask.offset(batch, head) + row * mask.row_stride + w * 64 * mask.key_stride;
    const int keys = static_cast<int>(std::min<int64_t>(64, k_len - w * 64));
    switch (mask.kind) {
      case MaskKind::kBool: return gather_word(static_cast<const uint8_t*>(mask.data) + at, mask.key_stride, keys);
      case MaskKind::kFloat32: return finite_word(static_cast<const float*>(mask.data) + at, mask.key_stride, keys);
      case MaskKind::kBFloat16: return finite_word(static_cast<const BFloat16*>(mask.data) + at, mask.key_stride, keys);
      case MaskKind::kFloat16: return finite_word(static_cast<const Float16*>(mask.data) + at, mask.key_stride, keys);
      default: return ~uint64_t{0};
    }
  }

  template <class T>
  static uint64_t finite_word(const T* biases, int64_t stride, int keys) {
    uint64_t word = 0;
    for (int key = 0; key < keys; ++key) {
      word |= static_cast<uint64_t>(to_float(biases[key * stride]) != minus_infinity()) << key;
    }
    return word;
  }
};

bool depends_on_batch(const Structure& s) {
  for (int64_t i = 0; s.exists() && i < s.count(); ++i) {
    const MaskInstruction in = s.instruction(i);
    const MaskOp op = static_cast<MaskOp>(in.op);
    const bool has_batches = op == MaskOp::kKeyBelow || op == MaskOp::kRowBelow || op == MaskOp::kRowInterval;
    if (has_batches && in.b != 1) return true;
  }
  return false;
}

// The step of a mask's residues if all have the same, else 0.
int64_t residue_step(const Structure& s) {
  int64_t step = 0;
  for (int64_t i = 0; s.exists() && i < s.count(); ++i) {
    const MaskInstruction in = s.instruction(i);
    if (static_cast<MaskOp>(in.op) != MaskOp::kResidue) continue;
    if (step != 0 && step != in.a) return 0;
    step = in.a;
  }
  return step;
}

HeadPlan make_cheapest(const HeadMask& mask, const PanelCosts& costs) {
  const auto fill = [&](int64_t row, int64_t rows, uint64_t* words) { mask.fill(row, rows, true, words); };
  const auto fill_rest = [&](int64_t row, int64_t rows, uint64_t* words) { mask.fill(row, rows, false, words); };
  const int64_t step = residue_step(mask.params.structure);
  if (step < 2 || step * 4 > mask.q_len || mask.q_len > kMaxSplitLength) {
    return make_plan(fill, mask.q_len, mask.k_len, costs);
  }
  return make_residue_plan(fill, fill_rest, step, mask.q_len, mask.k_len, costs);
}

template <class T>
size_t bytes_of(const std::vector<T>& x) {
  return x.size() * sizeof(T);
}

// Plans by everything that determines them.
class Kept {
 public:
  using Key = std::vector<int64_t>;

  static Key key_of(const HeadMask& mask, const PanelCosts& costs, bool by_batch) {
    const Structure& s = mask.params.structure;
    Key key{costs.id, mask.params.mask.causal, mask.q_len, mask.k_len, by_batch ? mask.batch : 0};
    if (s.exists()) key.insert(key.end(), s.words, s.words + s.size);
    return key;
  }

  std::shared_ptr<const HeadPlan> find(const Key& key) {
    const std::lock_guard<std::mutex> guard(lock_);
    const auto found = plans_.find(key);
    return found == plans_.end() ? nullptr : found->second;
  }

  void keep(const Key& key, const std::shared_ptr<const HeadPlan>& plan) {
    const size_t bytes = bytes_of(key) + bytes_of(plan->panels) + bytes_of(plan->chunks) + bytes_of(plan->keys) +
                         bytes_of(plan->rows) + bytes_of(plan->words) + bytes_of(plan->cost);
    const std::lock_guard<std::mutex> guard(lock_);
    if (bytes_ + bytes > kMaxKeptBytes) {
      plans_.clear();
      bytes_ = 0;
    }
    bytes_ += bytes;
    plans_.emplace(key, plan);
  }

 private:
  std::mutex lock_;
  std::map<Key, std::shared_ptr<const HeadPlan>> plans_;
  size_t bytes_ = 0;
};

std::shared_ptr<const HeadPlan> plan_of(const HeadMask& mask, const PanelCosts& costs, bool by_batch) {
  if (mask.params.mask.kind != MaskKind::kNone) return std::make_shared<HeadPlan>(make_cheapest(mask, costs));
  // Never destroyed: a thread may still run a kernel while the process exits.
  static Kept& kept = *new Kept;
  const Kept::Key key = Kept::key_of(mask, costs, by_batch);
  std::shared_ptr<const HeadPlan> plan = kept.find(key);
  if (!plan) {
    plan = std::make_shared<HeadPlan>(make_cheapest(mask, costs));
    kept.keep(key, plan);
  }
  return plan;
}

}  // namespace

Plans::Plans(const AttentionParams& params, const PanelCosts& costs) {
  const bool has_tensor = params.mask.kind != MaskKind::kNone;
  const bool by_batch = depends_on_batch(params.structure);
  const bool each_batch = params.cu_q || by_batch || (has_tensor && params.mask.batch_stride != 0);
  const bool each_head = has_tensor && params.mask.head_stride != 0;
  const int64_t batches = each_batch ? params.batch : 1, heads = each_head ? params.heads : 1;
  head_step_ = each_head ? 1 : 0;
  batch_step_ = each_batch ? heads : 0;
  plans_.reserve(batches * heads);
  for (int64_t batch = 0; batch < batches; ++batch) {
    HeadMask mask{params, batch, 0, params.q_len, params.k_len};
    if (params.cu_q) {
      mask.q_len = params.cu_q[batch + 1] - params.cu_q[batch];
      mask.k_len = params.cu_k[batch + 1] - params.cu_k[batch];
    }
    for (mask.head = 0; mask.head < heads; ++mask.head) plans_.push_back(plan_of(mask, costs, by_batch));
  }
  for (const auto& plan : plans_) {
    views_.push_back(plan->view());
    has_phases_ = has_phases_ || plan->has_phases;
  }
}

}  // namespace fused_attention
