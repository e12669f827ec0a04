// The backward pass: a device's kernel, or else torch's float32 matrix products, which also give the gradients of a mask
// and of slopes. These recompute the scores from q and k, some rows at a time. They keep a few arrays of at most
// chunk_elements() scores each (and at least one row).
//
// With P = softmax(S), S = scale * Q K^T + bias, O = P V and G the gradient of O (as in Dao et al., "FlashAttention",
// arXiv:2205.14135, appendix B.2):
//   dV = P^T G,  dP = G V^T,  dS = P * (dP - rowsum(P * dP)),  dQ = scale * dS K,  dK = scale * dS^T Q.
// A row without keys has P = 0 and adds nothing.
#include "backward.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "checks.h"

namespace fused_attention {

namespace {

// On the CPU, four arrays of this size fit a core's share of the cache; a GPU needs more work at once.
int64_t chunk_elements(const at::Device& device) {
  return device.is_cpu() ? int64_t{1} << 19 : int64_t{1} << 24;
}

// Rows of a chunk if masked keys can be skipped: fewer rows see fewer keys.
int64_t masked_rows(const at::Device& device) {
  return device.is_cpu() ? 128 : 512;
}

// The values of the 64 bits of a word.
at::Tensor bit_values(const at::Device& device) {
  auto values = at::empty({64}, at::TensorOptions().dtype(at::kLong));
  for (int bit = 0; bit < 64; ++bit) values.data_ptr<int64_t>()[bit] = static_cast<int64_t>(uint64_t{1} << bit);
  return values.to(device);
}

at::Tensor as_float(const at::Tensor& t) {
  return t.to(at::kFloat).contiguous();
}

// In the dtype and the memory order of `like`.
at::Tensor stored_as(const at::Tensor& sum, const at::Tensor& like) {
  auto result = at::empty_like(like);
  if (result.scalar_type() == at::kFloat && result.strides() == sum.strides()) return sum;
  return result.copy_(sum);
}

struct Range {
  int64_t begin, size;
};

Structure view(const at::Tensor& structure) {
  return Structure{structure.data_ptr<int64_t>(), structure.size(0)};
}

at::Tensor narrow(const at::Tensor& t, int64_t dim, Range range) {
  return t.narrow(dim, range.begin, range.size);
}

// The batch elements, or one packed sequence, that one pass goes over.
struct Sequences {
  Range batch;         // of masks: sequences where they are packed
  Range stored_batch;  // of q, k, v
  Range rows, keys;    // of q and of k, v
};

class Backward {
 public:
  Backward(const at::Tensor& grad, const Arguments& arguments, Wanted wanted);
  Gradients run();

 private:
  void add(const Sequences& sequences);
  void add(const Sequences& sequences, Range batch, Range kv_heads, Range rows, const at::Tensor& allowed, Range keys);
  at::Tensor structured_rows(int64_t batch, Range rows, int64_t k_len, Range* keys) const;
  void mask_scores(at::Tensor& scores, const Sequences& sequences, Range batch, Range heads, Range rows, Range keys,
                   const at::Tensor& allowed) const;
  at::Tensor distance(Range rows, Range keys) const;

  const Arguments& a_;
  const Wanted wanted_;
  const double scale_;
  const int64_t batch_, heads_, kv_heads_, group_, head_dim_;
  const at::Tensor q_, k_, v_, grad_;  // float32, contiguous
  at::Tensor mask_;                    // [batch, heads, q, k], some of them 1
  at::Tensor structure_, bit_values_;
  at::Tensor dq_, dk_, dv_, dmask_, dslopes_;
};

Backward::Backward(const at::Tensor& grad, const Arguments& a, Wanted wanted)
    : a_(a),
      wanted_(wanted),
      scale_(a.scale.has_value() ? *a.scale : 1.0 / std::sqrt(static_cast<double>(a.q.size(3)))),
      batch_(a.q.size(0)),
      heads_(a.q.size(1)),
      kv_heads_(a.k.size(1)),
      group_(kv_heads_ ? heads_ / kv_heads_ : 1),
      head_dim_(a.q.size(3)),
      q_(as_float(a.q)),
      k_(as_float(a.k)),
      v_(as_float(a.v)),
      grad_(as_float(grad)) {
  if (wanted[kWantQuery]) dq_ = at::zeros_like(q_);
  if (wanted[kWantKey]) dk_ = at::zeros_like(k_);
  if (wanted[kWantValue]) dv_ = at::zeros_like(v_);
  if (a.mask.has_value()) {
    mask_ = *a.mask;
    while (mask_.dim() < 4) mask_ = mask_.unsqueeze(0);
  }
  if (a.structure.has_value()) {
    structure_ = a.structure->contiguous();
    bit_values_ = bit_values(q_.device());
  }
  if (wanted[kWantMask]) dmask_ = at::zeros(mask_.sizes(), mask_.options().dtype(at::kFloat));
  if (wanted[kWantSlopes]) dslopes_ = at::zeros({heads_}, q_.options());
}

Gradients Backward::run() {
  if (a_.is_packed()) {
    const auto ends_q = a_.cu_seqlens_q->cpu().contiguous();
    const auto ends_k = a_.cu_seqlens_k.has_value() ? a_.cu_seqlens_k->cpu().contiguous() : ends_q;
    const int32_t *q = ends_q.data_ptr<int32_t>(), *k = ends_k.data_ptr<int32_t>();
    const int64_t sequences = ends_q.size(0) - 1;
    const int64_t q_len = check_offsets("cu_seqlens", q, sequences, q_.size(2), "max_seqlen", a_.max_seqlen_q);
    const int64_t k_len = check_offsets("cu_seqlens_k", k, sequences, k_.size(2), "max_seqlen_k", a_.max_seqlen_k);
    if (structure_.defined()) check_structure_fits(structure_, sequences, q_len, k_len);
    for (int64_t i = 0; i < sequences; ++i) {
      add(Sequences{{i, 1}, {0, 1}, {q[i], q[i + 1] - q[i]}, {k[i], k[i + 1] - k[i]}});
    }
  } else {
    const Range all{0, batch_};
    if (structure_.defined()) check_structure_fits(structure_, batch_, q_.size(2), k_.size(2));
    add(Sequences{all, all, {0, q_.size(2)}, {0, k_.size(2)}});
  }
  const auto none = [&] { return at::empty({0}, a_.q.options()); };
  return Gradients{wanted_[kWantQuery] ? stored_as(dq_, a_.q) : none(), wanted_[kWantKey] ? stored_as(dk_, a_.k) : none(),
                   wanted_[kWantValue] ? stored_as(dv_, a_.v) : none(),
                   wanted_[kWantMask] ? stored_as(dmask_.view(a_.mask->sizes()), *a_.mask) : none(),
                   wanted_[kWantSlopes] ? stored_as(dslopes_, *a_.alibi_slopes) : none()};
}

// Cuts into chunks: as many rows as fit, then heads, then batch elements. The fixed order makes the sums reproducible.
void Backward::add(const Sequences& s) {
  if (s.batch.size * heads_ * s.rows.size * s.keys.size == 0) return;
  const bool skips = a_.is_causal || structure_.defined();
  const int64_t budget = chunk_elements(q_.device());
  const int64_t most_rows = std::max<int64_t>(1, budget / (group_ * s.keys.size));
  const int64_t rows = std::min({s.rows.size, most_rows, skips ? masked_rows(q_.device()) : s.rows.size});
  const int64_t head_elements = group_ * rows * s.keys.size;
  const int64_t kv_heads = std::min(kv_heads_, std::max<int64_t>(1, budget / head_elements));
  const bool varies = structure_.defined() && varies_by_batch(view(structure_));
  const int64_t batches =
      kv_heads < kv_heads_ || varies ? 1 : std::max<int64_t>(1, budget / (kv_heads_ * head_elements));
  for (int64_t row = 0; row < s.rows.size; row += rows) {
    const Range these{row, std::min(rows, s.rows.size - row)};
    const int64_t seen = a_.is_causal ? std::min(s.keys.size, row + these.size) : s.keys.size;
    Range keys{0, seen};
    at::Tensor allowed;
    for (int64_t b = 0; b < s.batch.size; b += batches) {
      const Range batch{b, std::min(batches, s.batch.size - b)};
      if (structure_.defined() && (b == 0 || varies)) allowed = structured_rows(s.batch.begin + b, these, seen, &keys);
      for (int64_t head = 0; head < kv_heads_ && keys.size != 0; head += kv_heads) {
        add(s, batch, Range{head, std::min(kv_heads, kv_heads_ - head)}, these, allowed, keys);
      }
    }
  }
}

// One chunk; `batch`, `rows` and `keys` count within the sequences.
void Backward::add(const Sequences& s, Range batch, Range kv_heads, Range rows, const at::Tensor& allowed, Range keys) {
  const Range heads{kv_heads.begin * group_, kv_heads.size * group_};
  const Range stored_batch{s.stored_batch.begin + batch.begin, batch.size};
  const Range stored_rows{s.rows.begin + rows.begin, rows.size}, stored_keys{s.keys.begin + keys.begin, keys.size};
  const int64_t products = batch.size * kv_heads.size;
  const auto cut = [&](const at::Tensor& t, Range head_range, Range range) {
    return narrow(narrow(narrow(t, 0, stored_batch), 1, head_range), 2, range);
  };
  // The heads of a group are stacked as rows of one product.
  const auto of_q = [&](const at::Tensor& t) {
    return cut(t, heads, stored_rows).reshape({products, group_ * rows.size, head_dim_});
  };
  const auto of_k = [&](const at::Tensor& t) {
    return cut(t, kv_heads, stored_keys).reshape({products, keys.size, head_dim_});
  };
  const auto q = of_q(q_), grad = of_q(grad_), k = of_k(k_), v = of_k(v_);

  auto scores = at::bmm(q, k.transpose(1, 2)).mul_(scale_).view({batch.size, heads.size, rows.size, keys.size});
  mask_scores(scores, s, batch, heads, rows, keys, allowed);
  auto weights = at::softmax(scores, -1);
  if (a_.is_causal || mask_.defined() || allowed.defined()) {
    weights.masked_fill_(scores.amax(-1, /*keepdim=*/true).eq(minus_infinity()), 0.0);
  }
  scores = at::Tensor();
  const auto flat = weights.view({products, group_ * rows.size, keys.size});
  const auto gradient_of_k = [&](const at::Tensor& sum, const at::Tensor& left, const at::Tensor& right, double factor) {
    const auto product = at::bmm(left.transpose(1, 2), right);
    cut(sum, kv_heads, stored_keys)
        .add_(product.view({batch.size, kv_heads.size, keys.size, head_dim_}), factor);
  };
  if (wanted_[kWantValue]) gradient_of_k(dv_, flat, grad, 1.0);
  if (!wanted_[kWantQuery] && !wanted_[kWantKey] && !wanted_[kWantMask] && !wanted_[kWantSlopes]) return;

  auto ds = at::bmm(grad, v.transpose(1, 2));
  ds.sub_(ds.mul(flat).sum(-1, /*keepdim=*/true)).mul_(flat);
  if (wanted_[kWantKey]) gradient_of_k(dk_, ds, q, scale_);
  if (wanted_[kWantQuery]) {
    cut(dq_, heads, stored_rows)
        .copy_(at::bmm(ds, k).mul_(scale_).view({batch.size, heads.size, rows.size, head_dim_}));
  }
  const auto of_scores = ds.view({batch.size, heads.size, rows.size, keys.size});
  if (wanted_[kWantMask]) {
    auto part = dmask_;
    const Range ranges[4] = {{s.batch.begin + batch.begin, batch.size}, heads, rows, keys};
    for (int dim = 0; dim < 4; ++dim) part = part.size(dim) == 1 ? part : narrow(part, dim, ranges[dim]);
    part.add_(at::sum_to(of_scores, part.sizes()));
  }
  if (wanted_[kWantSlopes]) {
    narrow(dslopes_, 0, heads).sub_(of_scores.mul(distance(rows, keys)).sum(std::vector<int64_t>{0, 2, 3}));
  }
}

void Backward::mask_scores(at::Tensor& scores, const Sequences& s, Range batch, Range heads, Range rows, Range keys,
                           const at::Tensor& allowed) const {
  if (a_.alibi_slopes.has_value()) {
    const auto slopes = narrow(*a_.alibi_slopes, 0, heads).view({heads.size, 1, 1});
    scores.addcmul_(slopes, distance(rows, keys), -1.0);
  }
  if (mask_.defined()) {
    auto part = mask_;
    const Range ranges[4] = {{s.batch.begin + batch.begin, batch.size}, heads, rows, keys};
    for (int dim = 0; dim < 4; ++dim) part = part.size(dim) == 1 ? part : narrow(part, dim, ranges[dim]);
    part.scalar_type() == at::kBool ? scores.masked_fill_(part.logical_not(), minus_infinity()) : scores.add_(part);
  }
  if (allowed.defined()) scores.masked_fill_(allowed.logical_not(), minus_infinity());
  if (a_.is_causal && keys.begin + keys.size > rows.begin + 1) {
    const auto row = at::arange(rows.begin, rows.begin + rows.size, scores.options().dtype(at::kLong)).unsqueeze(1);
    const auto key = at::arange(keys.begin, keys.begin + keys.size, row.options());
    scores.masked_fill_(key.gt(row), minus_infinity());
  }
}

// |key - row|, [rows, keys].
at::Tensor Backward::distance(Range rows, Range keys) const {
  const auto row = at::arange(rows.begin, rows.begin + rows.size, q_.options()).unsqueeze(1);
  return at::arange(keys.begin, keys.begin + keys.size, q_.options()).sub(row).abs_();
}

// The structured mask of some rows, cut to the range of keys that any of them sees.
at::Tensor Backward::structured_rows(int64_t batch, Range rows, int64_t k_len, Range* keys) const {
  const int64_t width = words_for(k_len);
  std::vector<uint64_t> words(static_cast<size_t>(width * rows.size));
  evaluate_rows(view(structure_), batch, rows.begin, rows.size, k_len, true, words.data());
  int64_t begin = width, end = 0;
  for (int64_t word = 0; word < width; ++word) {
    uint64_t any = 0;
    for (int64_t row = 0; row < rows.size; ++row) any |= words[row * width + word];
    if (any && word < begin) begin = word;
    if (any) end = word + 1;
  }
  if (begin >= end) {
    *keys = Range{0, 0};
    return at::Tensor();
  }
  *keys = Range{begin * 64, std::min(end * 64, k_len) - begin * 64};
  auto bits = at::empty({rows.size, end - begin, 1}, at::TensorOptions().dtype(at::kLong));
  for (int64_t row = 0; row < rows.size; ++row) {
    std::copy_n(words.data() + row * width + begin, end - begin, bits.data_ptr<int64_t>() + row * (end - begin));
  }
  // From pageable memory: the call returns when `bits` has been read, and does not wait for the kernels before it.
  bits = bits.to(q_.device(), at::kLong, /*non_blocking=*/true);
  return bits.bitwise_and(bit_values_).ne(0).view({rows.size, (end - begin) * 64}).narrow(1, 0, keys->size);
}

}  // namespace

Gradients backward_with(Launch forward, LaunchGradients launch, const at::Tensor& grad, Wanted wanted,
                        const Optional<at::Tensor>& out, const Optional<at::Tensor>& lse, const Arguments& a) {
  check_arguments<PlainSizes>(a);
  check_backward<PlainSizes>(grad, out, lse, a.q);
  if (wanted[kWantMask] || wanted[kWantSlopes]) return Backward(grad, a, wanted).run();
  at::Tensor result, sums;
  if (out.has_value()) {
    result = with_contiguous_dim(*out);
    sums = lse->contiguous();
  } else {
    result = forward_with(forward, a, &sums);
  }
  PreparedCall call(a);
  AttentionParams& params = call.params;
  params.out = result.data_ptr();
  params.out_strides = strides_of(result);
  params.lse = sums.data_ptr<float>();
  const auto of_out = with_contiguous_dim(grad), delta = at::empty_like(sums);
  GradientParams gradients{};
  gradients.out_gradient = of_out.data_ptr();
  gradients.out_strides = strides_of(of_out);
  gradients.delta = delta.data_ptr<float>();
  const auto allocate = [&](WantedIndex i, const at::Tensor& like, void** data, Strides* strides) {
    if (!wanted[i]) return at::empty({0}, a.q.options());
    const auto gradient = allocate_like(like);
    *data = gradient.data_ptr();
    *strides = strides_of(gradient);
    return gradient;
  };
  const auto dq = allocate(kWantQuery, call.q, &gradients.dq, &gradients.dq_strides);
  const auto dk = allocate(kWantKey, call.k, &gradients.dk, &gradients.dk_strides);
  const auto dv = allocate(kWantValue, call.v, &gradients.dv, &gradients.dv_strides);
  if (a.is_packed()) {
    for (Strides* strides : {&params.out_strides, &gradients.out_strides, &gradients.dq_strides, &gradients.dk_strides,
                             &gradients.dv_strides}) {
      strides->batch = 0;
    }
  }
  if (call.q.numel() == 0 || call.k.numel() == 0 || params.batch == 0) {
    for (const at::Tensor& gradient : {dq, dk, dv}) gradient.zero_();
  } else if (!launch(params, gradients, call.q.device())) {
    return Backward(grad, a, wanted).run();
  }
  return Gradients{dq, dk, dv, at::empty({0}, a.q.options()), at::empty({0}, a.q.options())};
}

}  // namespace fused_attention
