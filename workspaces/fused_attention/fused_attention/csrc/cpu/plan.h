// A schedule: which query rows are computed together, against which keys. Made once per mask and lengths.
//
// A panel is up to 64 query rows, in granules of 16. Its keys are grouped into chunks, which are runs or lists of keys.
// A key that no row of a panel sees costs nothing. A panel has 16, 32 or 64 rows, whichever makes the least work. For
// strided and dilated masks, whose keys are at a fixed distance modulo a step, the rows of one residue make a panel,
// and the rest of the mask is a first phase; see make_residue_plan.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "attention.h"

namespace fused_attention {

struct HeadPlan {
  std::vector<Panel> panels;
  std::vector<Chunk> chunks;
  std::vector<int32_t> keys;   // -1: padding, a key of zeros that no row sees
  std::vector<int32_t> rows;
  std::vector<uint16_t> words;
  std::vector<float> cost;     // [panels + 1], running sums
  bool has_phases = false;
  float visits = 0.0f;         // how many granules read a key, on average

  PlanView view() const {
    return PlanView{panels.data(), chunks.data(), keys.data(), rows.data(), words.data(),
                    static_cast<int64_t>(panels.size()), visits};
  }
};

// Sets words[i][words_for(k_len)] for rows [row, row + rows).
using FillRows = std::function<void(int64_t row, int64_t rows, uint64_t* words)>;

HeadPlan make_plan(const FillRows& fill, int64_t q_len, int64_t k_len, const PanelCosts& costs);

// The same for a mask with residues modulo `step`. If cheaper, in two phases: the mask without its residues, from
// `fill_rest`, then the remainder, with rows of one residue together.
HeadPlan make_residue_plan(const FillRows& fill, const FillRows& fill_rest, int64_t step, int64_t q_len, int64_t k_len,
                       const PanelCosts& costs);

// The plans of one call, by batch (or sequence) and head. Plans of masks that are structure alone are cached.
class Plans {
 public:
  Plans(const AttentionParams& params, const PanelCosts& costs);

  const HeadPlan& of(int64_t batch, int64_t head) const { return *plans_[batch * batch_step_ + head * head_step_]; }
  bool has_phases() const { return has_phases_; }
  Problem problem(const AttentionParams& params) const {
    return Problem{params, views_.data(), batch_step_, head_step_, has_phases_};
  }

 private:
  std::vector<std::shared_ptr<const HeadPlan>> plans_;
  std::vector<PlanView> views_;
  int64_t batch_step_ = 0, head_step_ = 0;
  bool has_phases_ = false;
};

}  // namespace fused_attention
