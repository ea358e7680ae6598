#include "decide/search/tiling_board.h"

#include <algorithm>
#include <set>

namespace tombolo::search {
namespace {

constexpr int64_t kStepsEach = 50;     // for each choice that is wanted
constexpr size_t kFreeSetsMax = 4096;  // that largest_free looks at

NumberRanges in_order(NumberRanges ranges) {
  std::ranges::sort(ranges, {}, &NumberRange::first);
  NumberRanges out;
  for (const NumberRange& range : ranges) {
    if (!out.empty() && out.back().first + out.back().count == range.first) {
      out.back().count += range.count;
    } else {
      out.push_back(range);
    }
  }
  return out;
}

// The first `count` numbers leave `from`.
NumberRanges cut_off(NumberRanges& from, int64_t count) {
  NumberRanges taken;
  while (count > 0) {
    NumberRange& front = from.front();
    const int64_t part = std::min(count, front.count);
    taken.push_back({front.first, part});
    front.first += part;
    front.count -= part;
    count -= part;
    if (front.count == 0) from.erase(from.begin());
  }
  return taken;
}

// Parts of classes become classes of their own, the part that is taken behind the rest. Says which are
// taken.
template <class Classes, class Duplicate>
std::vector<size_t> split(Classes& classes, const std::vector<int64_t>& taken,
                          NumberRanges& members, Duplicate duplicate) {
  std::vector<size_t> out;
  for (size_t i = 0; i < taken.size(); ++i) {
    if (taken[i] == 0) continue;
    size_t at = i;
    if (taken[i] < classes[i].size) {
      auto part = classes[i];
      part.members = cut_off(classes[i].members, taken[i]);
      part.size = taken[i];
      classes[i].size -= taken[i];
      at = classes.size();
      classes.push_back(std::move(part));
      duplicate(i);
    }
    out.push_back(at);
    const NumberRanges& ranges = classes[at].members;
    members.insert(members.end(), ranges.begin(), ranges.end());
  }
  members = in_order(std::move(members));
  return out;
}

}  // namespace

TilingBoard::TilingBoard(int64_t rails, int64_t domains)
    : domains_{{{{0, domains}}, domains}},
      rails_{{{{0, rails}}, rails}},
      free_{{1}},
      free_gpus_(rails * domains) {}

// Chooses rails first, class by class, and of the domains where all of them are free.
class TilingChoices {
 public:
  TilingChoices(const TilingBoard& board, const RectangleShape& shape, size_t most)
      : board_(board), shape_(shape), most_(most) {
    now_.domains.resize(board.domains_.size());
    now_.rails.resize(board.rails_.size());
    for (const auto& each : board.domains_) domains_free_ += each.size;
    free_in_.assign(board.domains_.size(), 1);
    row_.resize(board.domains_.size());
    column_.resize(board.rails_.size());
    for (size_t i = 0; i < row_.size(); ++i) {
      for (size_t j = 0; j < column_.size(); ++j) {
        if (!board.free_[i][j]) continue;
        row_[i] += board.rails_[j].size;
        column_[j] += board.domains_[i].size;
      }
    }
    choose_rails(0, shape.rails);
  }

  std::vector<TilingChoice> found;
  bool all = true;
  int64_t steps = 0;

 private:
  // Whole classes first, then none, then parts: what is found first splits least.
  template <class Each>
  static void for_each_count(int64_t need, int64_t size, Each each) {
    const int64_t most = std::min(need, size);
    each(most);
    if (most > 0) each(0);
    for (int64_t count = most - 1; count > 0; --count) each(count);
  }

  bool full() {
    if (found.size() < most_ && steps < kStepsEach * static_cast<int64_t>(most_)) return false;
    all = false;
    return true;
  }

  // Whether the classes of rails from j on have `need` rails that are free in enough of the domains.
  bool rails_suffice(size_t j, int64_t need) {
    for (; j < now_.rails.size() && need > 0; ++j) {
      int64_t domains = 0;
      for (size_t i = 0; i < free_in_.size(); ++i) {
        domains += free_in_[i] && board_.free_[i][j] ? board_.domains_[i].size : 0;
      }
      if (domains >= shape_.domains) need -= board_.rails_[j].size;
    }
    return need <= 0;
  }

  void choose_rails(size_t j, int64_t need) {
    ++steps;
    if (need == 0) return choose_domains(0, shape_.domains);
    if (j == now_.rails.size() || full() || !rails_suffice(j, need)) return;
    for_each_count(need, board_.rails_[j].size, [&](int64_t count) {
      if (full()) return;
      if (count == 0) return choose_rails(j + 1, need);
      std::vector<char> before = free_in_;
      const int64_t domains_before = domains_free_;
      for (size_t i = 0; i < free_in_.size(); ++i) {
        if (!free_in_[i] || board_.free_[i][j]) continue;
        free_in_[i] = 0;
        domains_free_ -= board_.domains_[i].size;
      }
      now_.rails[j] = count;
      if (domains_free_ >= shape_.domains) choose_rails(j + 1, need - count);
      now_.rails[j] = 0;
      free_in_ = std::move(before);
      domains_free_ = domains_before;
    });
  }

  void choose_domains(size_t i, int64_t need) {
    ++steps;
    if (need == 0) return add();
    if (i == now_.domains.size() || full()) return;
    if (!free_in_[i]) return choose_domains(i + 1, need);
    for_each_count(need, board_.domains_[i].size, [&](int64_t count) {
      now_.domains[i] = count;
      choose_domains(i + 1, need - count);
      now_.domains[i] = 0;
    });
  }

  void add() {
    if (full()) return;
    TilingChoice choice = now_;
    for (size_t i = 0; i < choice.domains.size(); ++i) {
      choice.around += choice.domains[i] * row_[i];
      choice.splits += choice.domains[i] > 0 && choice.domains[i] < board_.domains_[i].size;
    }
    for (size_t j = 0; j < choice.rails.size(); ++j) {
      choice.around += choice.rails[j] * column_[j];
      choice.splits += choice.rails[j] > 0 && choice.rails[j] < board_.rails_[j].size;
    }
    found.push_back(std::move(choice));
  }

  const TilingBoard& board_;
  const RectangleShape& shape_;
  const size_t most_;
  TilingChoice now_;
  std::vector<char> free_in_;          // domain classes where all chosen rails are free
  int64_t domains_free_ = 0;           // of those
  std::vector<int64_t> row_, column_;  // free GPUs of a domain, of a rail, by class
};

std::vector<TilingChoice> TilingBoard::choices(const RectangleShape& shape, size_t most, bool& all,
                                               int64_t& steps) const {
  if (shape.gpus() > free_gpus_) return {};
  TilingChoices choices(*this, shape, most);
  if (!choices.all) all = false;
  steps += choices.steps;
  std::ranges::stable_sort(choices.found, {}, &TilingChoice::fit);
  return std::move(choices.found);
}

void TilingBoard::take(const TilingChoice& choice, Tile& tile) {
  const std::vector<size_t> rows =
      split(domains_, choice.domains, tile.domains, [&](size_t i) { free_.push_back(free_[i]); });
  const std::vector<size_t> columns = split(rails_, choice.rails, tile.rails, [&](size_t j) {
    for (auto& row : free_) row.push_back(row[j]);
  });
  for (const size_t i : rows) {
    for (const size_t j : columns) {
      free_[i][j] = 0;
      free_gpus_ -= domains_[i].size * rails_[j].size;
    }
  }
  merge_domains();
  merge_rails();
}

void TilingBoard::merge_domains() {
  for (size_t i = 0; i < domains_.size(); ++i) {
    for (size_t k = domains_.size() - 1; k > i; --k) {
      if (free_[k] != free_[i]) continue;
      domains_[i].size += domains_[k].size;
      std::ranges::copy(domains_[k].members, std::back_inserter(domains_[i].members));
      domains_[i].members = in_order(std::move(domains_[i].members));
      domains_.erase(domains_.begin() + static_cast<std::ptrdiff_t>(k));
      free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }
}

void TilingBoard::merge_rails() {
  const auto equal = [&](size_t j, size_t k) {
    return std::ranges::all_of(free_, [&](const auto& row) { return row[j] == row[k]; });
  };
  for (size_t j = 0; j < rails_.size(); ++j) {
    for (size_t k = rails_.size() - 1; k > j; --k) {
      if (!equal(j, k)) continue;
      rails_[j].size += rails_[k].size;
      std::ranges::copy(rails_[k].members, std::back_inserter(rails_[j].members));
      rails_[j].members = in_order(std::move(rails_[j].members));
      rails_.erase(rails_.begin() + static_cast<std::ptrdiff_t>(k));
      for (auto& row : free_) row.erase(row.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }
}

// The rails of the largest rectangle are those that all its domains have free: an intersection of rows.
RectangleShape TilingBoard::largest_free() const {
  std::set<std::vector<char>> sets;
  for (const auto& row : free_) {
    std::set<std::vector<char>> more{row};
    for (const auto& other : sets) {
      std::vector<char> both = row;
      for (size_t j = 0; j < both.size(); ++j) both[j] = both[j] && other[j];
      more.insert(std::move(both));
    }
    sets.merge(more);
    if (sets.size() > kFreeSetsMax) break;
  }
  RectangleShape best{0, 0};
  for (const auto& set : sets) {
    RectangleShape shape{0, 0};
    for (size_t j = 0; j < set.size(); ++j) shape.rails += set[j] ? rails_[j].size : 0;
    for (size_t i = 0; i < free_.size(); ++i) {
      bool all = true;
      for (size_t j = 0; j < set.size(); ++j) all = all && (!set[j] || free_[i][j]);
      if (all) shape.domains += domains_[i].size;
    }
    if (shape.gpus() > best.gpus()) best = shape;
  }
  return best;
}

}  // namespace tombolo::search
