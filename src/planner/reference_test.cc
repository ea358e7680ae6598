#include "planner/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace tombolo::planner {
namespace {

TEST(Reference, EveryRowIsAJob) {
  for (const std::string& name : reference_names()) {
    const Result<ReferenceTable> read = read_reference_table("", name);
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_FALSE(read->rows.empty()) << name;
    std::set<std::string> names;
    for (const ReferenceRow& row : read->rows) {
      EXPECT_TRUE(names.insert(row.name).second) << name << ": " << row.name << " twice";
      const plan::Parallelism& p = row.job.parallelism;
      EXPECT_EQ(p.tensor * p.pipeline * p.context * p.data, row.job.cluster.devices()) << row.name;
      EXPECT_GE(row.job.model->layers, p.pipeline * p.virtual_stages) << row.name;
    }
  }
}

}  // namespace
}  // namespace tombolo::planner
