#include "spec/model/config_fields.h"

#include <gtest/gtest.h>

namespace tombolo::model::detail {
namespace {

TEST(ConfigFields, ReadersKeepTheirPromises) {
  const Value::Table table{{"n_layer", 12}};
  Config config(table, "config.json");
  EXPECT_EQ(config.integer("n_layer", 12), 12);
  EXPECT_DEATH(config.integer("n_layer", 0), "n_layer between 1 and 0");
  EXPECT_DEATH(config.integer_of({}, 12), "config.json: a value without a name");
}

// What they ask of the fields that are read before theirs.
TEST(ConfigFields, ExpertsAreReadLast) {
  const Value::Table table;
  Config config(table, "config.json");
  Model m;
  EXPECT_DEATH(read_experts(config, "mixtral", m), "experts of 0 layers of width 0");
  EXPECT_DEATH(read_latent_attention(config, "deepseek_v3", m), "latent attention of 0 heads");
}

}  // namespace
}  // namespace tombolo::model::detail
