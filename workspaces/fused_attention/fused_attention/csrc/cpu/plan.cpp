#include "plan.h"

#include "plan_maker.h"

namespace fused_attention {

HeadPlan make_plan(const FillRows& fill, int64_t q_len, int64_t k_len, const PanelCosts& costs) {
  HeadPlan plan;
  plan.cost.push_back(0.0f);
  PlanMaker maker(k_len, costs, plan);
  std::vector<uint64_t> words(kMaxPanelRows * words_for(k_len));
  for (int64_t row = 0; row < q_len; row += kMaxPanelRows) {
    const int rows = static_cast<int>(std::min<int64_t>(kMaxPanelRows, q_len - row));
    fill(row, rows, words.data());
    maker.add_group(row, rows, false, false, true, words.data());
  }
  return plan;
}

HeadPlan make_residue_plan(const FillRows& fill, const FillRows& fill_rest, int64_t step, int64_t q_len, int64_t k_len,
                           const PanelCosts& costs) {
  const int64_t width = words_for(k_len);
  std::vector<uint64_t> all(q_len * width), rest(q_len * width), residue(q_len * width);
  fill(0, q_len, all.data());
  fill_rest(0, q_len, rest.data());
  bool has_rest = false, is_part = true;
  // Rows of one residue follow each other, so that a group's bits are contiguous.
  std::vector<int32_t> rows;
  for (int64_t first = 0; first < std::min(step, q_len); ++first) {
    for (int64_t row = first; row < q_len; row += step) {
      const uint64_t *whole = all.data() + row * width, *part = rest.data() + row * width;
      uint64_t* left = residue.data() + static_cast<int64_t>(rows.size()) * width;
      for (int64_t w = 0; w < width; ++w) {
        left[w] = whole[w] & ~part[w];
        is_part = is_part && (part[w] & ~whole[w]) == 0;
        has_rest = has_rest || part[w];
      }
      rows.push_back(static_cast<int32_t>(row));
    }
  }

  HeadPlan plan;
  plan.cost.push_back(0.0f);
  PlanMaker maker(k_len, costs, plan);
  const auto each_group = [&](const auto& visit) {
    for (int64_t row = 0; row < q_len; row += kMaxPanelRows) {
      visit(row, static_cast<int>(std::min<int64_t>(kMaxPanelRows, q_len - row)));
    }
  };
  const auto each_residue_group = [&](const auto& visit) {
    for (int64_t at = 0; at < q_len;) {
      const int64_t same = (q_len - 1 - rows[at]) / step + 1;  // rows of this residue from here on
      const int count = static_cast<int>(std::min<int64_t>(kMaxPanelRows, same));
      visit(at, count);
      at += count;
    }
  };
  float whole_cost = 0.0f, split_cost = 0.0f;
  each_group([&](int64_t row, int count) {
    whole_cost += maker.estimate_group(count, all.data() + row * width);
    if (has_rest) split_cost += maker.estimate_group(count, rest.data() + row * width);
  });
  each_residue_group(
      [&](int64_t at, int count) { split_cost += maker.estimate_group(count, residue.data() + at * width); });

  if (!is_part || whole_cost <= split_cost) {
    each_group([&](int64_t row, int count) {
      maker.add_group(row, count, false, false, true, all.data() + row * width);
    });
    return plan;
  }
  plan.has_phases = has_rest;
  plan.rows = rows;
  if (has_rest) {
    each_group([&](int64_t row, int count) {
      maker.add_group(row, count, false, false, false, rest.data() + row * width);
    });
  }
  each_residue_group([&](int64_t at, int count) {
    maker.add_group(at, count, true, has_rest, true, residue.data() + at * width);
  });
  return plan;
}

}  // namespace fused_attention
