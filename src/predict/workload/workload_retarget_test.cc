// A job's graphs for two replicas, asked about four, are the job's graphs for four.
#include <gtest/gtest.h>

#include "predict/workload/workload.h"
#include "spec/chakra/retarget.h"
#include "support/small_job.h"

namespace tombolo::workload {
namespace {

using graph::Node;
using graph::NodeType;

// Sizes that four replicas can share without a rest.
plan::Job job_of(const layout::Parallelism& parallelism, int64_t data, bool tied, bool experts) {
  plan::Job job = job_of_small_model(4, 16, 4 * data);
  job.model->tied_embeddings = tied;
  if (experts) {
    job.model->experts.emplace();
    job.model->experts->count = 8;
    job.model->experts->per_token = 2;
    job.model->experts->ffn = 128;
  }
  job.parallelism = parallelism;
  job.parallelism.data = data;
  return job;
}

graph::Graphs bare_graphs_of(const Workload& workload) {
  graph::Graphs out;
  for (int32_t rank = 0; rank < workload.ranks(); ++rank) {
    out.push_back(workload.graph(rank, false));
  }
  return out;
}

struct Retargeting {
  const char* name;
  layout::Parallelism parallelism;
  bool tied = false, experts = false;
  int64_t data = 2;
};

void expect_equal(const Retargeting& c, int64_t from, int64_t to) {
  SCOPED_TRACE(fmt::format("{}: {} to {}", c.name, from, to));
  const auto traced = Workload::make(job_of(c.parallelism, from, c.tied, c.experts), {});
  const auto wanted = Workload::make(job_of(c.parallelism, to, c.tied, c.experts), {});
  ASSERT_TRUE(traced && wanted);
  const auto made =
      chakra::Retarget::make(bare_graphs_of(*traced), traced->groups(), {wanted->ranks(), {}});
  ASSERT_TRUE(made) << made.error().text();
  const chakra::CommGroups ours = made->groups(), theirs = wanted->groups();
  EXPECT_EQ(ours.size(), theirs.size());
  for (int32_t rank = 0; rank < wanted->ranks(); ++rank) {
    const graph::Graph mine = made->graph(rank), other = wanted->graph(rank, false);
    ASSERT_EQ(mine.nodes.size(), other.nodes.size()) << "rank " << rank;
    for (size_t n = 0; n < mine.nodes.size(); ++n) {
      Node a = mine.nodes[n], b = other.nodes[n];
      // Groups may be numbered differently; their members are what counts. A sharded optimizer's
      // work shrinks with its shard, which a trace does not know.
      if (!a.details->pg_name.empty() && !b.details->pg_name.empty()) {
        EXPECT_EQ(ours.at(a.details->pg_name), theirs.at(b.details->pg_name)) << a.name;
        a.details = b.details = {};
      }
      if (c.parallelism.zero > 0 && a.name.find('U') != std::string::npos) {
        a.duration = b.duration = {};
      }
      // The parts of a gather are rounded once each.
      EXPECT_NEAR(static_cast<double>(a.comm_size), static_cast<double>(b.comm_size), 1);
      a.comm_size = b.comm_size;
      ASSERT_EQ(a, b) << "rank " << rank << ", " << a.name;
    }
  }
}

TEST(WorkloadRetarget, EqualsTheJobWithAsManyReplicas) {
  const std::vector<Retargeting> cases{
      {"data", {{.pipeline = 1}}},
      {"zero 1", {{.pipeline = 1, .zero = 1}}},
      {"zero 3", {{.pipeline = 1, .zero = 3}}},
      {"tensor", {{.tensor = 4, .pipeline = 1}}},
      {"sequence, zero 2", {{.tensor = 2, .pipeline = 1, .zero = 2, .sequence_parallel = true}}},
      {"pipeline", {{.pipeline = 4}}},
      {"pipeline, zero 3", {{.pipeline = 2, .zero = 3}}},
      {"tensor, pipeline, tied", {{.tensor = 2, .pipeline = 2}}, true},
      {"interleaved",
       {{.tensor = 2, .pipeline = 2, .virtual_stages = 2}, layout::ScheduleKind::kInterleaved}},
      {"zero bubble", {{.tensor = 2, .pipeline = 4, .zero = 1}, layout::ScheduleKind::kZbH1}},
      {"context", {{.tensor = 2, .context = 2, .pipeline = 2}}},
      {"experts", {{.pipeline = 2, .expert = 2}}, false, true, 4},
  };
  for (const Retargeting& c : cases) {
    expect_equal(c, c.data, 2 * c.data);
    expect_equal(c, 2 * c.data, c.data);
  }
}

}  // namespace
}  // namespace tombolo::workload
