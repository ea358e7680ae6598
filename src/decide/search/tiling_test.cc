#include "decide/search/tiling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/random.h"

namespace tombolo::search {
namespace {

using testing::ElementsAre;
using Shapes = std::vector<RectangleShape>;

std::vector<int64_t> numbers(const NumberRanges& ranges) {
  std::vector<int64_t> out;
  for (const NumberRange& range : ranges) {
    for (int64_t i = 0; i < range.count; ++i) out.push_back(range.first + i);
  }
  return out;
}

// Every placed job has all combinations of so many rails and domains, and no GPU has two jobs.
void expect_sound(int64_t rails, int64_t domains, const std::vector<Shapes>& jobs,
                  const Tiling& tiling) {
  std::set<std::pair<int64_t, int64_t>> taken;
  int64_t gpus = 0;
  double lost = 0;
  for (size_t job = 0; job < jobs.size(); ++job) {
    if (!tiling.tiles[job]) continue;
    const Tile& tile = *tiling.tiles[job];
    const RectangleShape& shape = jobs[job][tile.shape];
    gpus += shape.gpus();
    lost += shape.lost;
    EXPECT_EQ(static_cast<int64_t>(numbers(tile.rails).size()), shape.rails);
    EXPECT_EQ(static_cast<int64_t>(numbers(tile.domains).size()), shape.domains);
    for (const int64_t domain : numbers(tile.domains)) {
      for (const int64_t rail : numbers(tile.rails)) {
        EXPECT_TRUE(domain >= 0 && domain < domains && rail >= 0 && rail < rails);
        EXPECT_TRUE(taken.emplace(domain, rail).second) << domain << ", " << rail;
      }
    }
  }
  EXPECT_EQ(gpus, tiling.gpus);
  EXPECT_DOUBLE_EQ(lost, tiling.lost);
  EXPECT_LE(gpus, tiling.gpus_at_most);
}

// Tries every set of GPUs that is all combinations of some rails and some domains.
class Oracle {
 public:
  Oracle(int rails, int domains, const std::vector<Shapes>& jobs) {
    for (const Shapes& shapes : jobs) {
      ways_.emplace_back();
      for (const RectangleShape& shape : shapes) {
        for (unsigned d = 1; d < 1u << domains; ++d) {
          if (__builtin_popcount(d) != shape.domains) continue;
          for (unsigned r = 1; r < 1u << rails; ++r) {
            if (__builtin_popcount(r) != shape.rails) continue;
            unsigned cells = 0;
            for (int i = 0; i < domains; ++i) cells |= (d >> i & 1) ? r << (i * rails) : 0;
            ways_.back().push_back({cells, shape.gpus(), shape.lost});
          }
        }
      }
    }
  }
  // GPUs, and less what is lost.
  std::pair<int64_t, double> best(size_t job = 0, unsigned taken = 0) {
    if (job == ways_.size()) return {};
    const auto [at, is_new] = known_.try_emplace({job, taken});
    if (!is_new) return at->second;
    std::pair<int64_t, double> out = best(job + 1, taken);
    for (const auto& [cells, gpus, lost] : ways_[job]) {
      if (cells & taken) continue;
      std::pair<int64_t, double> with = best(job + 1, taken | cells);
      with.first += gpus;
      with.second -= lost;
      out = std::max(out, with);
    }
    return known_[{job, taken}] = out;
  }

 private:
  struct Way {
    unsigned cells;
    int64_t gpus;
    double lost;
  };
  std::vector<std::vector<Way>> ways_;
  std::map<std::pair<size_t, unsigned>, std::pair<int64_t, double>> known_;
};

TEST(Tiling, EqualsEveryWayOfEveryJob) {
  Random random(17);
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random.below(static_cast<uint64_t>(n)));
  };
  int left_over = 0;
  for (int i = 0; i < 300; ++i) {
    const int64_t rails = 2 + below(3), domains = 2 + below(3);
    std::vector<Shapes> jobs(static_cast<size_t>(2 + below(4)));
    for (Shapes& shapes : jobs) {
      const int64_t gpus = 1 + below(8);
      for (int64_t w = std::min(gpus, rails); w >= 1; --w) {
        if (gpus % w != 0 || gpus / w > domains || (!shapes.empty() && below(3) == 0)) continue;
        shapes.push_back({w, gpus / w, static_cast<double>(shapes.empty() ? 0 : below(4)) / 4});
      }
      std::ranges::stable_sort(shapes, {}, &RectangleShape::lost);
    }
    const Tiling tiling = tile(rails, domains, jobs);
    expect_sound(rails, domains, jobs, tiling);
    EXPECT_TRUE(tiling.proven);
    const auto [gpus, lost] =
        Oracle(static_cast<int>(rails), static_cast<int>(domains), jobs).best();
    EXPECT_EQ(tiling.gpus, gpus) << i;
    EXPECT_DOUBLE_EQ(tiling.lost, -lost) << i;
    EXPECT_EQ(tiling.gpus_at_most, gpus);
    left_over += !std::ranges::all_of(tiling.tiles, &std::optional<Tile>::has_value);
  }
  EXPECT_GT(left_over, 30);  // both kinds of answers are drawn
  EXPECT_LT(left_over, 270);
}

TEST(Tiling, SaysWhatIsLeftOver) {
  // 3 x 3 less 2 x 2 has five GPUs, and no rectangle of them has more than three.
  const std::vector<Shapes> jobs = {{{2, 2}}, {{2, 2}}};
  const Tiling tiling = tile(3, 3, jobs);
  EXPECT_EQ(tiling.gpus, 4);
  EXPECT_TRUE(tiling.proven);
  EXPECT_EQ(tiling.gpus_at_most, 4);
  EXPECT_EQ(tiling.largest_free.gpus(), 3);
  EXPECT_TRUE(tiling.tiles[0]);
  EXPECT_FALSE(tiling.tiles[1]);
  EXPECT_EQ(tile(3, 3, {}).largest_free, (RectangleShape{3, 3}));
}

// Of 4 rails in 4 domains, five jobs of 3 x 1, 1 x 3 twice each and 2 x 2: the pinwheel.
TEST(Tiling, FindsAPinwheel) {
  const std::vector<Shapes> jobs = {{{3, 1}}, {{1, 3}}, {{3, 1}}, {{1, 3}}, {{2, 2}}};
  const Tiling tiling = tile(4, 4, jobs);
  expect_sound(4, 4, jobs, tiling);
  EXPECT_EQ(tiling.gpus, 16);
  EXPECT_EQ(tiling.largest_free.gpus(), 0);
}

TEST(Tiling, TakesTheShapeThatLosesLeast) {
  const std::vector<Shapes> jobs = {{{4, 2, 0}, {2, 4, 1}}, {{4, 2, 0}, {2, 4, 3}}};
  const Tiling roomy = tile(4, 4, jobs);
  EXPECT_EQ(roomy.lost, 0);
  EXPECT_THAT(numbers(roomy.tiles[1]->rails), ElementsAre(0, 1, 2, 3));
  // A third job needs a rail through all domains: the others have to be narrow or stay out.
  const std::vector<Shapes> three = {jobs[0], {{1, 4, 0}}, {{1, 4, 0}}};
  const Tiling tight = tile(4, 4, three);
  expect_sound(4, 4, three, tight);
  EXPECT_EQ(tight.gpus, 16);
  EXPECT_EQ(tight.lost, 1);
}

// Of jobs whose sizes divide each other and the domain, or are its multiples, all that a cluster has GPUs for
// have a place (docs/laws/rectangles.md).
TEST(Tiling, PowersOfTwoLeaveNothingOver) {
  Random random(5);
  for (int i = 0; i < 20; ++i) {
    const int64_t rails = int64_t{1} << random.below(9),
                  domains = int64_t{1} << (3 + random.below(8));
    std::vector<Shapes> jobs;
    int64_t left = rails * domains;
    while (left > 0 && jobs.size() < 60) {
      int64_t gpus = int64_t{1} << random.below(20);
      if (gpus > left) continue;
      jobs.emplace_back();
      for (int64_t w = rails; w >= 1; w /= 2) {
        if (gpus % w == 0 && gpus / w <= domains) {
          jobs.back().push_back({w, gpus / w, static_cast<double>(jobs.back().size())});
        }
      }
      left -= gpus;
    }
    const Tiling tiling = tile(rails, domains, jobs);
    EXPECT_EQ(tiling.gpus, rails * domains - left) << rails << " x " << domains;
  }
}

// Cut a cluster of 256 GPUs a domain into rectangles, and find room for them again.
TEST(Tiling, PlacesNearlyAllOfWhatACutClusterHeld) {
  Random random(11);
  double worst = 1;
  for (int i = 0; i < 10; ++i) {
    std::vector<RectangleShape> cut = {{256, 128}};
    while (cut.size() < 16) {
      const size_t at = random.below(cut.size());
      RectangleShape& whole = cut[at];
      const bool by_rails = random.below(2) == 0;
      int64_t& side = by_rails ? whole.rails : whole.domains;
      if (side < 2) continue;
      RectangleShape part = whole;
      const int64_t taken = 1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(side - 1)));
      (by_rails ? part.rails : part.domains) = taken;
      side -= taken;
      cut.push_back(part);
    }
    std::vector<Shapes> jobs;
    for (const RectangleShape& each : cut) jobs.push_back({each});
    const Tiling tiling = tile(256, 128, jobs);
    expect_sound(256, 128, jobs, tiling);
    EXPECT_EQ(tiling.gpus_at_most, 256 * 128);
    worst = std::min(worst, static_cast<double>(tiling.gpus) / (256 * 128));
  }
  EXPECT_GT(worst, 0.99);
}

TEST(Tiling, SubsetsSumUpToTheCapacity) {
  const std::vector<int64_t> sizes = {6, 10, 15};
  EXPECT_EQ(subset_sum(100, sizes), 31);
  EXPECT_EQ(subset_sum(30, sizes), 25);
  EXPECT_EQ(subset_sum(5, sizes), 0);
  EXPECT_EQ(subset_sum(9, std::vector<int64_t>{4, 6, 4}), 8);
}

}  // namespace
}  // namespace tombolo::search
