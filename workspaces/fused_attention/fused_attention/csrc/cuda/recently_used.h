// A cache of the last used values, up to a bound.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <utility>
#include <vector>

namespace fused_attention {

template <class Value>
class RecentlyUsed {
 public:
  struct Item {
    std::vector<int64_t> key;  // everything that determines the value
    Value value;
    int64_t bytes;
    bool pinned;  // stays, even beyond the bound
  };

  RecentlyUsed(size_t max_items, int64_t max_bytes) : max_items_(max_items), max_bytes_(max_bytes) {}

  // Null where there is none.
  Item* find(const std::vector<int64_t>& key) {
    const auto found = std::find_if(items_.begin(), items_.end(), [&](const Item& item) { return item.key == key; });
    if (found == items_.end()) return nullptr;
    items_.splice(items_.begin(), items_, found);
    return &items_.front();
  }

  // Drops the least recently used items until the others fit the bounds; never the new one.
  Item* put(std::vector<int64_t> key, Value value, int64_t bytes) {
    items_.push_front(Item{std::move(key), std::move(value), bytes, false});
    size_t count = 0;
    int64_t sum = 0;
    for (auto item = items_.begin(); item != items_.end();) {
      const bool fits = count < max_items_ && sum + item->bytes <= max_bytes_;
      if (fits || item->pinned || item == items_.begin()) {
        ++count;
        sum += item->bytes;
        ++item;
      } else {
        item = items_.erase(item);
      }
    }
    return &items_.front();
  }

  size_t size() const { return items_.size(); }

 private:
  std::list<Item> items_;
  size_t max_items_;
  int64_t max_bytes_;
};

}  // namespace fused_attention
