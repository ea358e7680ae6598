#include "base/fields.h"

#include <gtest/gtest.h>

#include <array>

#include "base/json.h"
#include "base/toml.h"

namespace tombolo {
namespace {

enum class Precision { kBf16, kFp32 };
[[maybe_unused]] constexpr auto enum_names(Precision) {
  return std::to_array<EnumName<Precision>>(
      {{Precision::kBf16, "bf16"}, {Precision::kFp32, "fp32"}});
}

struct Link {
  std::vector<std::string> between;
  Seconds latency;
  BytesPerSecond rate = 1_Gbps;
  int connections = 1;
  double loss = 0;
  bool operator==(const Link&) const = default;
};
template <class Archive>
void describe(Archive& a, Link& link) {
  a.required("between", link.between);
  a.check(link.between.size() == 2, "between", "must name two datacenters",
          "[\"oregon\", \"paris\"]");
  a.required("latency", link.latency);
  a.optional("node_pair_limit", link.rate);
  a.optional("connections", link.connections);
  a.check(link.connections > 0, "connections", "must be at least 1");
  a.optional("loss", link.loss);
}

struct Job {
  std::string name;
  Precision precision = Precision::kBf16;
  std::optional<int64_t> seed;
  uint8_t stages = 2;
  bool recompute = false;
  std::vector<Link> wan;
  bool operator==(const Job&) const = default;
};
template <class Archive>
void describe(Archive& a, Job& job) {
  a.required("name", job.name);
  a.optional("precision", job.precision);
  a.optional("seed", job.seed);
  a.optional("stages", job.stages);
  a.optional("recompute", job.recompute);
  a.optional("wan", job.wan);
  a.refuse("tensor", "is not supported yet", "leaving it out");
}

Result<Job> read(std::string_view toml) {
  return read_fields<Job>(TRY(parse_toml(toml, "job.toml")), "job.toml");
}
std::string refusal(std::string_view toml) {
  const Result<Job> job = read(toml);
  return job ? "accepted" : job.error().text();
}

constexpr const char* kGood = R"(name = "demo"
precision = "fp32"
seed = 7
[[wan]]
between = ["oregon", "paris"]
latency = "40 ms"
node_pair_limit = "5 Gbps"
)";

TEST(Fields, ReadAndKeepDefaults) {
  const Job job = *read(kGood);
  EXPECT_EQ(job.precision, Precision::kFp32);
  EXPECT_EQ(job.seed, 7);
  EXPECT_EQ(job.stages, 2);
  ASSERT_EQ(job.wan.size(), 1u);
  EXPECT_EQ(job.wan[0].latency, 40_ms);
  EXPECT_EQ(job.wan[0].rate, 5_Gbps);
  EXPECT_EQ(job.wan[0].connections, 1);
}

TEST(Fields, WhatIsWrittenReadsBackEqual) {
  const Job job = *read(kGood);
  const std::string json = to_json(write_fields(job));
  const Result<Job> back = read_fields<Job>(*parse_json(json, "plan.json"), "plan.json");
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(*back, job);
  EXPECT_EQ(to_json(write_fields(*back)), json);
  EXPECT_EQ(to_json(write_fields(Job{.name = "x"}), -1),
            R"({"name":"x","precision":"bf16","stages":2,"recompute":false})");
}

TEST(Fields, AWrongUnitIsShownWithItsPlace) {
  EXPECT_EQ(refusal("name = \"demo\"\n[[wan]]\nbetween = [\"a\", \"b\"]\nlatency = \"34\"\n"),
            "job.toml:4: wan[0].latency = \"34\": \"34\" has no unit\n  try \"20 ms\"");
  EXPECT_EQ(refusal("name = \"demo\"\n[[wan]]\nbetween = [\"a\", \"b\"]\nlatency = 34\n"),
            "job.toml:4: wan[0].latency = 34: wanted a text with a unit, found a whole number\n"
            "  try \"20 ms\"");
  EXPECT_EQ(refusal("name = \"demo\"\n[[wan]]\nbetween = [\"a\", \"b\"]\nlatency = \"-1 ms\"\n"),
            "job.toml:4: wan[0].latency = \"-1 ms\": must not be negative");
}

TEST(Fields, AnUnknownKeyGetsTheNearestKnownOne) {
  EXPECT_EQ(refusal("name = \"demo\"\nprecison = \"bf16\"\n"),
            "job.toml:2: precison = \"bf16\": unknown key\n  try \"precision\"");
  EXPECT_EQ(refusal("name = \"demo\"\nbananas = 3\n"),
            "job.toml:2: bananas = 3: unknown key\n"
            "  try one of name, precision, seed, stages, recompute, wan, tensor");
}

TEST(Fields, KindsAndRangesAreChecked) {
  EXPECT_EQ(refusal("name = 3\n"), "job.toml:1: name = 3: wanted a text, found a whole number");
  EXPECT_EQ(refusal("name = \"x\"\nstages = 1.5\n"),
            "job.toml:2: stages = 1.5: wanted a whole number, found a number");
  EXPECT_EQ(refusal("name = \"x\"\nstages = 256\n"),
            "job.toml:2: stages = 256: must lie between 0 and 255");
  EXPECT_EQ(refusal("name = \"x\"\nrecompute = \"yes\"\n"),
            "job.toml:2: recompute = \"yes\": wanted true or false, found a text");
  EXPECT_EQ(
      refusal("name = \"x\"\nprecision = \"fp64\"\n"),
      "job.toml:2: precision = \"fp64\": is not one of the known names\n  try one of bf16, fp32");
  EXPECT_EQ(refusal("name = \"x\"\nwan = 5\n"),
            "job.toml:2: wan = 5: wanted a list, found a whole number");
  EXPECT_EQ(refusal("name = \"x\"\nwan = [5]\n"),
            "job.toml:2: wan[0] = 5: wanted a table, found a whole number");
}

TEST(Fields, MissingRefusedAndImpossible) {
  EXPECT_EQ(refusal("seed = 1\n"), "job.toml:1: name is missing");
  EXPECT_EQ(refusal("name = \"x\"\n[[wan]]\nbetween = [\"a\", \"b\"]\n"),
            "job.toml:2: wan[0].latency is missing");
  EXPECT_EQ(refusal("name = \"x\"\ntensor = 8\n"),
            "job.toml:2: tensor = 8: is not supported yet\n  try leaving it out");
  EXPECT_EQ(refusal("name = \"x\"\n[[wan]]\nbetween = [\"a\"]\nlatency = \"1 ms\"\n"),
            "job.toml:3: wan[0].between = [\"a\"]: must name two datacenters\n"
            "  try [\"oregon\", \"paris\"]");
  EXPECT_EQ(refusal("name = \"x\"\n[[wan]]\nbetween = [\"a\", \"b\"]\nlatency = \"1 ms\"\n"
                    "connections = 0\n"),
            "job.toml:5: wan[0].connections = 0: must be at least 1");
}

TEST(Fields, TheFirstProblemIsTheOneTold) {
  EXPECT_EQ(refusal("name = 1\nseed = \"x\"\nunknown = 2\n"),
            "job.toml:1: name = 1: wanted a text, found a whole number");
}

TEST(Fields, AHostileValueIsNotEchoedWhole) {
  const std::string text = refusal("name = \"x\"\nseed = \"" + std::string(5000, 'y') + "\"\n");
  EXPECT_LT(text.size(), 200u);
  EXPECT_NE(text.find("..."), std::string::npos);
}

TEST(Fields, NearestName) {
  EXPECT_EQ(nearest_name("bandwith", {"bandwidth", "latency"}), "bandwidth");
  EXPECT_EQ(nearest_name("x", {"bandwidth", "latency"}), "");
  EXPECT_EQ(nearest_name("cost", {"loss", "price"}), "") << "half of it would be wrong";
  // Of other programs: with a word more, or another first one.
  EXPECT_EQ(nearest_name("micro_batch_size", {"global_batch", "micro_batch"}), "micro_batch");
  EXPECT_EQ(nearest_name("num_key_value_heads", {"heads", "layers"}), "");
  EXPECT_EQ(nearest_name("num_layers", {"heads", "layers"}), "layers");
  EXPECT_EQ(nearest_name("gpus_per_node", {"name", "nodes", "devices_per_node"}),
            "devices_per_node");
  EXPECT_EQ(nearest_name("tensor_model_parallel_size", {"tensor", "pipeline"}), "tensor");
  EXPECT_EQ(nearest_name("to", {"between", "node_pair_limit"}), "");
  EXPECT_EQ(one_of("1F1B", {"gpipe", "1f1b", "zb-v"}), "\"1f1b\"; all: gpipe, 1f1b, zb-v");
  EXPECT_EQ(one_of("zbv", {"gpipe", "1f1b", "zb-v"}), "\"zb-v\"; all: gpipe, 1f1b, zb-v");
  EXPECT_EQ(one_of("eats", {"west", "east"}), "\"east\"; all: west, east");
  EXPECT_EQ(one_of("region-20", {"region-1", "region-2"}), "\"region-2\"; all: region-1, region-2");
  EXPECT_EQ(one_of("", {"w", "gpipe"}), "one of w, gpipe");
  EXPECT_EQ(one_of("fp64", {"bf16", "fp32"}), "one of bf16, fp32");
  EXPECT_EQ(one_of(std::string(100, 'a'), {std::string(100, 'a')}),
            "one of " + std::string(100, 'a'));
  EXPECT_EQ(nearest_name(std::string(100, 'a'), {std::string(100, 'a')}), "");
}

struct Twice {
  int first = 1, second = 2;
};
template <class Archive>
void describe(Archive& a, Twice& twice) {
  a.required("number", twice.first);
  a.required("number", twice.second);
}

TEST(Fields, WhatIsWrittenCanBeRead) {
  EXPECT_DEATH(write_fields(Twice{}), "\"number\" is written twice");
  const Job job{.name = "x", .precision = static_cast<Precision>(7)};
  EXPECT_DEATH(write_fields(job), "value 7 has no name to be written by");
}

TEST(Fields, AReaderHasATableAndAPlaceForItsComplaint) {
  std::optional<Error> error;
  const Value table(Value::Table{});
  EXPECT_DEATH(FieldReader(Value(3), "job.toml", "wan", &error),
               "the fields of a whole number in job.toml");
  EXPECT_DEATH(FieldReader(table, "job.toml", "wan", nullptr),
               "job.toml: nowhere to keep what is wrong with wan");
}

}  // namespace
}  // namespace tombolo
