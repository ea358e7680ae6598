// Which GPUs of a cluster are free, as rows and columns that differ: the state of a tiling search.
//
// Domains that have the same rails free form one class, rails that are free in the same domains
// another. A block, one class of each, is free as a whole or not at all, however large the cluster.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "decide/search/tiling.h"

namespace tombolo::search {

// How many of each class a rectangle takes.
struct TilingChoice {
  std::vector<int64_t> domains, rails;
  int64_t splits = 0;  // classes taken in part
  int64_t around = 0;  // other free GPUs, in its domains and on its rails

  auto fit() const { return std::pair(splits, around); }
};

class TilingBoard {
 public:
  TilingBoard(int64_t rails, int64_t domains);

  int64_t free_gpus() const { return free_gpus_; }
  // Every way to place the shape that is not like another, tightest first. Where there are more than `most`,
  // those that split few classes, and `all` becomes false. `steps` grows by what was looked at.
  std::vector<TilingChoice> choices(const RectangleShape& shape, size_t most, bool& all,
                                    int64_t& steps) const;
  void take(const TilingChoice& choice, Tile& tile);
  RectangleShape largest_free() const;

 private:
  struct Class {
    NumberRanges members;
    int64_t size = 0;
  };
  void merge_domains();
  void merge_rails();

  std::vector<Class> domains_, rails_;
  std::vector<std::vector<char>> free_;  // [domain class][rail class]
  int64_t free_gpus_;

  friend class TilingChoices;
};

}  // namespace tombolo::search
