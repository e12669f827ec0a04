#include "device_lists.h"

#include <c10/cuda/CUDAException.h>

#include <algorithm>
#include <list>
#include <mutex>

#include "../tiles.h"
#include "launch.h"

namespace fused_attention {

namespace {

constexpr size_t kMaxKept = 64;
constexpr int64_t kMaxKeptBytes = int64_t{256} << 20;

struct KeptLists {
  std::vector<int64_t> key;  // everything that the lists were made from
  at::Tensor memory;
  TileView view;
  bool in_graph;  // a captured graph points to them: they stay
};

at::Tensor words_on(c10::cuda::CUDAStream stream, int64_t count) {
  return at::empty({count}, at::TensorOptions().dtype(at::kLong).device(stream.device()));
}

bool is_capturing(c10::cuda::CUDAStream stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  C10_CUDA_CHECK(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

// The lists made last, the most recently used first.
class Kept {
 public:
  DeviceLists find_or_make(const AttentionParams& p, int32_t rows, int32_t keys, c10::cuda::CUDAStream stream) {
    const std::lock_guard<std::mutex> guard(mutex_);
    const bool capturing = is_capturing(stream);
    std::vector<int64_t> key = {stream.device_index(), rows, keys, p.mask.causal, p.q_len, p.k_len,
                                batches_of(p.structure, p.batch)};
    const int64_t* words = p.structure.words;
    key.insert(key.end(), words, words + p.structure.size);
    auto found = std::find_if(lists_.begin(), lists_.end(), [&](const KeptLists& kept) { return kept.key == key; });
    if (found == lists_.end()) {
      TORCH_CHECK(!capturing, "the mask's tiles are not on ", stream.device(), " yet, and cannot be copied there while "
                  "a CUDA graph is captured; call fused_attention once with this mask before the capture");
      lists_.push_front(make(p, std::move(key), rows, keys, stream));
      drop_oldest();
    } else {
      lists_.splice(lists_.begin(), lists_, found);
    }
    KeptLists& kept = lists_.front();
    kept.in_graph = kept.in_graph || capturing;
    // Dropped from here, the memory must not be given to others before this stream has done with it.
    kept.memory.record_stream(stream.unwrap());
    return DeviceLists{kept.view, kept.memory, at::Tensor()};
  }

 private:
  static KeptLists make(const AttentionParams& p, std::vector<int64_t> key, int32_t rows, int32_t keys,
                        c10::cuda::CUDAStream stream) {
    const TileLists lists =
        list_tiles(p.structure, p.mask.causal, batches_of(p.structure, p.batch), p.q_len, p.k_len, rows, keys);
    const std::vector<int64_t> packed = lists.packed();
    const at::Tensor memory = words_on(stream, static_cast<int64_t>(packed.size()));
    int64_t* target = memory.data_ptr<int64_t>();
    C10_CUDA_CHECK(
        cudaMemcpyAsync(target, packed.data(), packed.size() * sizeof(int64_t), cudaMemcpyHostToDevice, stream));
    // Any stream may read them from now on.
    C10_CUDA_CHECK(cudaStreamSynchronize(stream));
    return KeptLists{std::move(key), memory, lists.view(target), false};
  }

  void drop_oldest() {
    size_t count = 0;
    int64_t bytes = 0;
    for (auto kept = lists_.begin(); kept != lists_.end();) {
      ++count;
      bytes += kept->memory.numel() * 8;
      const bool drop = kept != lists_.begin() && !kept->in_graph && (count > kMaxKept || bytes > kMaxKeptBytes);
      kept = drop ? lists_.erase(kept) : std::next(kept);
    }
  }

  std::mutex mutex_;
  std::list<KeptLists> lists_;
};

// Never destroyed: at the end of a process the device may be gone before it.
Kept& kept_lists() {
  static Kept* const kept = new Kept;
  return *kept;
}

// Starts from the lists of the structured mask, if there is one.
void add_boolean(const AttentionParams& p, int32_t rows, int32_t keys, c10::cuda::CUDAStream stream,
                 DeviceLists* lists) {
  Classification c{};
  c.mask = p.mask;
  c.structure = lists->view;
  c.q_len = static_cast<int32_t>(p.q_len);
  c.k_len = static_cast<int32_t>(p.k_len);
  c.rows = rows;
  c.keys = keys;
  c.query_tiles = static_cast<int32_t>((p.q_len + rows - 1) / rows);
  c.batches = p.mask.batch_stride == 0 && lists->view.batch_stride == 0 ? 1 : static_cast<int32_t>(p.batch);
  c.heads = p.mask.head_stride == 0 ? 1 : static_cast<int32_t>(p.heads);
  c.capacity = static_cast<int32_t>((p.k_len + keys - 1) / keys);
  const int64_t slots = c.lists() * c.capacity;
  const at::Tensor memory = words_on(stream, c.lists() + slots + slots * rows * (keys / 64));
  int64_t* words = memory.data_ptr<int64_t>();
  c.ranges = reinterpret_cast<KeyTileRange*>(words);
  c.tiles = reinterpret_cast<KeyTile*>(words + c.lists());
  c.bits = reinterpret_cast<uint64_t*>(words + c.lists() + slots);
  C10_CUDA_CHECK(launch_classification(c, stream));
  lists->structure = lists->memory;
  lists->memory = memory;
  lists->view = c.view();
}

}  // namespace

DeviceLists make_lists(const AttentionParams& params, int32_t rows, int32_t keys, c10::cuda::CUDAStream stream) {
  DeviceLists lists{};
  if (params.structure.exists()) lists = kept_lists().find_or_make(params, rows, keys, stream);
  if (params.mask.kind == MaskKind::kBool) add_boolean(params, rows, keys, stream, &lists);
  return lists;
}

}  // namespace fused_attention
