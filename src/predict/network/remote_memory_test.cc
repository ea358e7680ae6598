#include "predict/network/remote_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace tombolo::network {
namespace {

using ::testing::HasSubstr;

// The paper's example: 16 nodes of 16 GPUs, 4 out-node switches, 8 memory groups. W = 1 MiB.
constexpr HierarchicalPool kExample{.nodes = 16,
                                    .gpus_per_node = 16,
                                    .switches = 4,
                                    .groups = 8,
                                    .memory_side = 10_GBps,
                                    .gpu_side = 20_GBps,
                                    .in_node = 40_GBps};

std::vector<double> loads(const PoolTransfer& transfer, Bytes tensor) {
  std::vector<double> out;
  for (const PoolStage& stage : transfer.stages) out.push_back(stage.load / tensor);
  return out;
}

TEST(RemoteMemory, LoadsOfThePapersExample) {
  const PoolTransfer plain = *transfer(kExample, {.tensor = 1_MiB});
  EXPECT_EQ(loads(plain, 1_MiB), (std::vector<double>{8, 4, 1}));
  const PoolTransfer gathered = *transfer(kExample, {.tensor = 1_MiB, .in_switch = true});
  EXPECT_EQ(loads(gathered, 1_MiB), (std::vector<double>{8, 64, 256}));
}

// W = 1 MiB, C = 64 KiB: n = 256 W / (8 * 4 * C) = 128. By the paper's formulas, with C = 65,536 B:
//   TX_rem2outSW  = C / 10 GB/s             = 6.5536 us
//   TX_outSW2inSW = 8 C / (16 * 20 GB/s)    = 1.6384 us, gathered 8 C / 20 GB/s      = 26.2144 us
//   TX_inSW2GPU   = 8 * 4 C / (256 * 40)    = 0.2048 us, gathered 8 * 4 C / 40 GB/s  = 52.4288 us
TEST(RemoteMemory, TimesByThePapersFormulas) {
  const PoolTransfer plain = *transfer(kExample, {.tensor = 1_MiB, .chunk = 64_KiB});
  EXPECT_EQ(plain.chunks, 128);
  EXPECT_NEAR(plain.time().value, (6.5536 + 1.6384 + 0.2048 + 127 * 6.5536) * 1e-6, 1e-15);
  EXPECT_EQ(plain.slowest().name, "memory group to out-node switch");
  const PoolTransfer gathered =
      *transfer(kExample, {.tensor = 1_MiB, .chunk = 64_KiB, .in_switch = true, .latency = 3_us});
  EXPECT_EQ(gathered.chunks, 128);
  EXPECT_NEAR(gathered.time().value, (3 + 6.5536 + 26.2144 + 52.4288 + 127 * 52.4288) * 1e-6,
              1e-15);
}

// 100 KB in chunks of 30 KB over one link: four of 25 KB each, no byte more.
TEST(RemoteMemory, ChunksAreEvenAndCarryNoMoreThanThereIs) {
  const SwitchedPool pool{1, {{"link", 1, 1, 1_GBps}}};
  const PoolTransfer t = *transfer(pool, {.tensor = 100_KB, .chunk = 30_KB});
  EXPECT_EQ(t.chunks, 4);
  EXPECT_NEAR(t.time().value, 100e-6, 1e-15);
}

// The busiest link when every station sends a unit to every station, itself included, over all
// stations squared: ring the shorter way, both ways in halves where they are equal.
double busiest_of_ring(int64_t stations) {
  std::vector<double> up(static_cast<size_t>(stations)), down(up);
  for (int64_t from = 0; from < stations; ++from) {
    for (int64_t d = 1; d < stations; ++d) {
      const double share = 2 * d == stations ? 0.5 : 1;
      for (int64_t i = 0; 2 * d <= stations && i < d; ++i) {
        up[static_cast<size_t>((from + i) % stations)] += share;
      }
      for (int64_t i = 0; 2 * d >= stations && i < stations - d; ++i) {
        down[static_cast<size_t>((from + stations - i) % stations)] += share;
      }
    }
  }
  const double most = std::max(*std::max_element(up.begin(), up.end()),
                               *std::max_element(down.begin(), down.end()));
  return most / static_cast<double>(stations * stations);
}

// The same on a mesh, columns first and then rows; right and down, left and up are alike.
double busiest_of_mesh(int64_t columns, int64_t rows) {
  std::vector<double> right(static_cast<size_t>(columns * rows)), down(right);
  for (int64_t from = 0; from < columns * rows; ++from) {
    for (int64_t to = 0; to < columns * rows; ++to) {
      for (int64_t x = from % columns; x < to % columns; ++x) {
        ++right[static_cast<size_t>(from / columns * columns + x)];
      }
      for (int64_t y = from / columns; y < to / columns; ++y) {
        ++down[static_cast<size_t>(y * columns + to % columns)];
      }
    }
  }
  const double most = std::max(*std::max_element(right.begin(), right.end()),
                               *std::max_element(down.begin(), down.end()));
  return most / static_cast<double>(columns * rows) / static_cast<double>(columns * rows);
}

TEST(RemoteMemory, RingsAndMeshesAreAsBusyAsTheirBusiestLink) {
  const Bytes all = 24 * 1_MiB;
  for (int64_t k = 1; k <= 9; ++k) {
    const RingPool ring{.gpus = 24, .stations = k, .link = 1_GBps};
    const PoolTransfer t = *transfer(ring, {.tensor = 1_MiB});
    EXPECT_NEAR(t.stages[0].load / all, busiest_of_ring(k), 1e-12) << k << " stations";
    for (int64_t rows = 1; rows <= 5; ++rows) {
      const MeshPool mesh{.gpus = 24, .columns = k, .rows = rows, .link = 1_GBps};
      EXPECT_NEAR(transfer(mesh, {.tensor = 1_MiB})->stages[0].load / all, busiest_of_mesh(k, rows),
                  1e-12)
          << k << " x " << rows;
    }
  }
}

// T = 16 MiB; an eighth of it on a ring of 8, at 1 GiB/s 2^-9 s, in 8 chunks of 256 KiB. The
// farthest station is 4 links away: 4 + 7 times 2^-12 s.
TEST(RemoteMemory, AChunkCrossesTheRingLinkByLink) {
  const RingPool ring{.gpus = 16, .stations = 8, .link = 1_GiB / 1_s};
  const PoolTransfer t = *transfer(ring, {.tensor = 1_MiB});
  EXPECT_EQ(t.chunks, 8);
  EXPECT_DOUBLE_EQ(t.time().value, 11 * 0x1p-12);
}

TEST(RemoteMemory, OneStationHasNoLinkToWaitFor) {
  const RingPool ring{.gpus = 4, .stations = 1, .link = 1_GBps};
  EXPECT_EQ(transfer(ring, {.tensor = 1_MiB, .latency = 2_us})->time(), 2_us);
}

TEST(RemoteMemory, RefusesWhatIsNotThere) {
  const auto text = [](const auto& result) { return result.error().text(); };
  const RingPool ring{.gpus = 4, .stations = 4, .link = 1_GBps};
  EXPECT_THAT(text(transfer(ring, {.tensor = 1_MiB, .in_switch = true})), HasSubstr("no switch"));
  HierarchicalPool pool = kExample;
  pool.groups = 0;
  EXPECT_THAT(text(transfer(pool, {.tensor = 1_MiB})), HasSubstr("memory groups 0"));
  pool = kExample;
  pool.in_node = BytesPerSecond{};
  EXPECT_THAT(text(transfer(pool, {.tensor = 1_MiB})), HasSubstr("in-node switch to GPU"));
  EXPECT_THAT(text(transfer(kExample, {})), HasSubstr("tensor"));
}

}  // namespace
}  // namespace tombolo::network
