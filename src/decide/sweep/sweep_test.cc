#include "decide/sweep/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/csv.h"
#include "base/file.h"
#include "base/json.h"
#include "predict/cost/price_plan.h"
#include "support/folder_test.h"
#include "support/job_texts.h"

namespace tombolo::sweep {
namespace {

using ::testing::HasSubstr;

// A folder that is gone after the test.
class SweepTest : public FolderTest {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    EXPECT_TRUE(write_file(folder_ + "/" + name, text));
    return folder_ + "/" + name;
  }
  Result<Sweep> sweep(const std::string& job, const std::vector<std::string>& vary,
                      SweepAsk ask = SweepAsk::kSimulate) {
    std::vector<SweepAxis> axes;
    for (const std::string& text : vary) axes.push_back(*parse_sweep_axis(text));
    return make_sweep(job, std::move(axes), {.ask = ask});
  }
};

double figure(const Sweep& sweep, const SweepRow& row, const std::string& column) {
  const std::vector<std::string> columns = sweep_columns(sweep.question);
  for (size_t i = 0; i < columns.size() && !row.figures.empty(); ++i) {
    if (columns[i] != column) continue;
    if (const auto* number = row.figures[i].get<double>()) return *number;
    if (const auto* whole = row.figures[i].get<int64_t>()) return static_cast<double>(*whole);
  }
  return -1;
}

constexpr const char* kTwoSites = R"(
[[datacenter]]
name = "west"
device = "a100-80g"
nodes = 2
price = "3.60 USD/device-hour"
[[datacenter]]
name = "east"
device = "a100-80g"
nodes = 2
price = "7.20 USD/device-hour"
[[wan]]
between = ["west", "east"]
one_way_latency = "20 ms"
node_pair_limit = "5 Gbps"
)";
constexpr const char* kToy = R"(
[cluster]
file = "two.toml"
[training]
global_batch = 4
[parallelism]
pipeline = 4
schedule = "gpipe"
[stage_times]
forward = "1 ms"
backward = "2 ms"
transfer = "2 ms"
latency = "0 ms"
)";

// GPipe over one WAN boundary, the closed form of docs/laws: P stages, M microbatches, f = 1 ms,
// b = 2 ms, a transfer w:
//   T = [P f + w + (M - 1) max(f, w)] + [P b + w + (M - 1) max(b, w)]
TEST_F(SweepTest, EqualsTheClosedFormOfGpipeOverTheWan) {
  write("two.toml", kTwoSites);
  const Sweep s =
      *sweep(write("job.toml", kToy), {"stage_times.transfer=0 ms,1 ms,2 ms,5 ms,40 ms",
                                       "training.global_batch=1,4,9", "parallelism.pipeline=2..4"});
  const std::vector<SweepRow> rows = run_sweep(s, {});
  ASSERT_EQ(rows.size(), 5u * 3u * 3u);
  size_t i = 0;
  for (const double w : {0, 1, 2, 5, 40}) {
    for (const int M : {1, 4, 9}) {
      for (const int P : {2, 3, 4}) {
        const double ms =
            P * 1 + w + (M - 1) * std::max(1.0, w) + P * 2 + w + (M - 1) * std::max(2.0, w);
        EXPECT_DOUBLE_EQ(figure(s, rows[i], "iteration_s"), ms / 1000)
            << "w=" << w << " M=" << M << " P=" << P;
        EXPECT_DOUBLE_EQ(figure(s, rows[i], "sequences_per_s"), M / (ms / 1000));
        ++i;
      }
    }
  }
}

// Two stages, one in each datacenter, one microbatch, no transfer: 2 x 3 ms. Devices at 3.60 and
// 7.20 USD an hour are 0.003 USD a second together: 18e-6 USD. No model: no tokens.
TEST_F(SweepTest, CostsWhatTheDevicesInUseCost) {
  write("two.toml", kTwoSites);
  const Sweep s =
      *sweep(write("job.toml", kToy),
             {"stage_times.transfer=0 ms", "training.global_batch=1", "parallelism.pipeline=2",
              "cluster.datacenter.*.price=3.60 USD/device-hour"});
  std::vector<SweepRow> rows = run_sweep(s, {});
  EXPECT_NEAR(figure(s, rows[0], "cost_usd"), 2 * 0.001 * 0.006, 1e-15);
  EXPECT_EQ(figure(s, rows[0], "cost_per_million_tokens_usd"), -1);
  const Sweep as_given =
      *sweep(folder_ + "/job.toml",
             {"stage_times.transfer=0 ms", "training.global_batch=1", "parallelism.pipeline=2"});
  rows = run_sweep(as_given, {});
  EXPECT_NEAR(figure(as_given, rows[0], "cost_usd"), 0.003 * 0.006, 1e-15);
}

// A pipeline in each of two datacenters. Iterations overlap, so that four are simulated, of local steps two
// turns and two: what crosses is paid for one of them. Each sends all gradients to the other, at 0.1 USD
// a GB; of local steps half as many bytes (bf16 for fp32) once in `steps` iterations, and a head of each
// update. Four devices cost 0.004 USD a second.
TEST_F(SweepTest, PaysForTheBytesOfOneIteration) {
  const auto egress = [&](const Sweep& s, const SweepRow& row) {
    EXPECT_EQ(row.status, SweepStatus::kOk) << row.reason;
    return figure(s, row, "cost_usd") - 0.004 * figure(s, row, "iteration_s");
  };
  const std::string dense = write("dense.toml", test::priced_apart());
  const plan::Plan plan = *cost::make_plan(*plan::read_job(dense));
  const double bytes = 2 * (plan.stages[0].gradients + plan.stages[1].gradients).value;
  for (const SweepAsk ask : {SweepAsk::kSimulate, SweepAsk::kEstimate}) {
    const Sweep s = *sweep(dense, {"training.global_batch=8"}, ask);
    EXPECT_NEAR(egress(s, run_sweep(s, {})[0]), bytes * 0.1e-9, 1e-12);
  }
  const Sweep local =
      *sweep(write("local.toml", test::priced_apart("[exchange]\nmode = \"local\"\nsteps = 5")),
             {"exchange.steps=5,20"});
  const std::vector<SweepRow> rows = run_sweep(local, {});
  EXPECT_NEAR(egress(local, rows[0]), bytes * 0.1e-9 / 10, bytes * 0.1e-9 / 1000);
  EXPECT_NEAR(egress(local, rows[1]), bytes * 0.1e-9 / 40, bytes * 0.1e-9 / 4000);
}

TEST_F(SweepTest, ReachesTheClusterFileThatTheJobNames) {
  write("two.toml", kTwoSites);
  const Sweep s = *sweep(write("job.toml", kToy), {"cluster.datacenter.east.nodes=1,2",
                                                   "cluster.wan.east-west.connections=16"});
  const Value job = *sweep_job(s, 0);
  EXPECT_EQ(job.find("cluster")->find("file"), nullptr);
  EXPECT_THAT(to_json(*job.find("cluster")->find("wan"), -1), HasSubstr("\"connections\":16"));
  const std::vector<SweepRow> rows = run_sweep(s, {});
  // Four stages have three devices, then four.
  EXPECT_EQ(rows[0].status, SweepStatus::kInfeasible);
  EXPECT_THAT(rows[0].reason, HasSubstr("4 stages need 4 devices, the cluster has 3"));
  EXPECT_EQ(rows[1].status, SweepStatus::kOk);
}

TEST_F(SweepTest, ReadsAConfigJsonOnce) {
  write("config.json", R"({"model_type": "llama", "hidden_size": 512, "num_hidden_layers": 4,
      "num_attention_heads": 8, "vocab_size": 1000, "intermediate_size": 1024,
      "max_position_embeddings": 128})");
  const std::string job = write("job.toml", R"(
[model]
config = "config.json"
[[cluster.datacenter]]
name = "x"
device = "a100-80g"
[training]
global_batch = 4
[parallelism]
pipeline = 1
)");
  const Sweep s = *sweep(job, {"model.sequence=128,256"}, SweepAsk::kEstimate);
  std::filesystem::remove(folder_ + "/config.json");
  const std::vector<SweepRow> rows = run_sweep(s, {});
  ASSERT_EQ(rows[0].status, SweepStatus::kOk) << rows[0].reason;
  EXPECT_DOUBLE_EQ(figure(s, rows[0], "tokens_per_s"), 128 * figure(s, rows[0], "sequences_per_s"));
  EXPECT_DOUBLE_EQ(figure(s, rows[1], "tokens_per_s"), 256 * figure(s, rows[1], "sequences_per_s"));
}

TEST_F(SweepTest, ThreadsAndProcessesMakeNoDifference) {
  write("two.toml", kTwoSites);
  const Sweep s =
      *sweep(write("job.toml", kToy), {"parallelism.pipeline=1..6", "training.global_batch=0..9",
                                       "parallelism.schedule=gpipe,1f1b"});
  const std::vector<SweepRow> rows = run_sweep(s, {.threads = 1});
  ASSERT_EQ(rows.size(), 120u);
  for (const int threads : {2, 5}) EXPECT_EQ(run_sweep(s, {.threads = threads}), rows);
  // Three processes, packed and put in order again.
  std::vector<SweepRow> together;
  for (int64_t process = 0; process < 3; ++process) {
    const auto share = run_sweep(s, {.threads = 2, .process = process, .processes = 3});
    const std::vector<SweepRow> read = *unpack_sweep_rows(pack_sweep_rows(share));
    EXPECT_EQ(read, share);
    together.insert(together.end(), read.begin(), read.end());
  }
  std::sort(together.begin(), together.end(),
            [](const auto& a, const auto& b) { return a.configuration < b.configuration; });
  EXPECT_EQ(sweep_csv(s, together), sweep_csv(s, rows));
  // More processes than configurations: the last ones have nothing to do.
  EXPECT_TRUE(run_sweep(s, {.process = 120, .processes = 121}).empty());
}

// The WAN is crossed once each way, and a link's own latency of 20 ms counts as one that is stated.
TEST_F(SweepTest, TheLatencyOfALinkCountsWhereNoneIsStated) {
  write("two.toml", kTwoSites);
  std::string job = kToy;
  const std::string stated = "latency = \"0 ms\"\n";
  const Sweep none = *sweep(write("none.toml", job), {"stage_times.latency=0 ms,20 ms"});
  job.erase(job.find(stated), stated.size());
  const Sweep link = *sweep(write("link.toml", job), {"cluster.wan.*.one_way_latency=0 ms,20 ms"});
  const std::vector<SweepRow> by_job = run_sweep(none, {}), by_link = run_sweep(link, {});
  for (size_t i = 0; i < 2; ++i) {
    const double ms = 4 + 2 + 3 * 2 + 4 * 2 + 2 + 3 * 2 + 40 * static_cast<double>(i);
    EXPECT_DOUBLE_EQ(figure(none, by_job[i], "iteration_s"), ms / 1000);
    EXPECT_DOUBLE_EQ(figure(link, by_link[i], "iteration_s"), ms / 1000);
  }
}

TEST_F(SweepTest, NotesWhatNoRowCounts) {
  std::string sites = kTwoSites;
  for (size_t at; (at = sites.find("a100-80g")) != sites.npos;) sites.replace(at, 8, "v100-32g");
  write("two.toml", sites);
  const std::string job = write("job.toml", kToy);
  const Sweep precision =
      *sweep(job, {"training.precision=fp16,fp8,bf16", "training.global_batch=4,8"});
  EXPECT_THAT(sweep_note_texts(run_sweep(precision, {})),
              testing::ElementsAre(
                  testing::AllOf(HasSubstr("precision = \"fp8\": v100-32g"),
                                 HasSubstr("(2 of 6 configurations)")),
                  testing::AllOf(HasSubstr("precision = \"bf16\": the matrix units of v100-32g"),
                                 HasSubstr("(2 of 6 configurations)"))));
  const Sweep cell =
      *sweep(job, {"parallelism.sharing=spatial,temporal", "training.precision=fp16"});
  EXPECT_THAT(sweep_note_texts(run_sweep(cell, {})),
              testing::ElementsAre(HasSubstr("sharing = \"temporal\" has no effect")));
}

TEST_F(SweepTest, NotesThatDifferInFiguresAreOne) {
  const auto row = [](std::vector<std::string> notes) {
    return SweepRow{.figures = {1}, .notes = std::move(notes)};
  };
  std::vector<SweepRow> rows = {row({"needs 84.9 GB of 90", "fine"}), row({"needs 790 MB of 90"}),
                                row({"fine", "needs two"})};
  EXPECT_THAT(
      sweep_note_texts(rows),
      testing::ElementsAre("needs 84.9 GB of 90 (2 of 3 configurations; with other figures, too)",
                           "fine (2 of 3 configurations)", "needs two (1 of 3 configurations)"));
  EXPECT_THAT(sweep_note_texts(rows, 1),
              testing::ElementsAre(HasSubstr("needs 84.9 GB"), "2 more notes with --json"));
  EXPECT_THAT(sweep_note_texts({row({"all"}), row({"all"})}), testing::ElementsAre("all"));
}

// What is noted of a job, and then it needs more devices than there are.
TEST_F(SweepTest, RowsWithoutAnAnswerHaveTheNotesOfTheirJob) {
  std::string sites = kTwoSites;
  for (size_t at; (at = sites.find("a100-80g")) != sites.npos;) sites.replace(at, 8, "v100-32g");
  write("two.toml", sites);
  const Sweep s =
      *sweep(write("job.toml", kToy), {"parallelism.pipeline=4,64", "training.precision=bf16"});
  const std::vector<SweepRow> rows = run_sweep(s, {});
  EXPECT_NE(rows[1].status, SweepStatus::kOk);
  EXPECT_THAT(sweep_note_texts(rows),
              testing::ElementsAre(testing::AllOf(HasSubstr("precision = \"bf16\""),
                                                  testing::Not(HasSubstr("configurations")))));
  EXPECT_EQ(*unpack_sweep_rows(pack_sweep_rows(rows)), rows);
}

TEST_F(SweepTest, ARowThatCannotBeIsARow) {
  write("two.toml", kTwoSites);
  const std::string job = write("job.toml", kToy);
  const Sweep s = *sweep(job, {"training.global_batch=4,0", "parallelism.pipeline=4,5"});
  const std::vector<SweepRow> rows = run_sweep(s, {});
  const SweepCounts counts = count_rows(rows);
  EXPECT_EQ(counts.ok, 1);
  EXPECT_EQ(counts.infeasible, 1);
  EXPECT_EQ(counts.unusable, 2);
  EXPECT_TRUE(sweep_outcome(rows));
  EXPECT_EQ(rows[2].status, SweepStatus::kUnusable);
  EXPECT_THAT(rows[2].reason, HasSubstr("training.global_batch = 0: must lie between"));

  const Sweep none = *sweep(job, {"parallelism.pipeline=5,6"});
  EXPECT_EQ(sweep_outcome(run_sweep(none, {})).error().code, ErrorCode::kInfeasible);
  const Sweep wrong = *sweep(job, {"training.global_batch=0,-1"});
  EXPECT_EQ(sweep_outcome(run_sweep(wrong, {})).error().code, ErrorCode::kUnusable);
}

TEST_F(SweepTest, RefusesAKeyThatTheFormatDoesNotHave) {
  write("two.toml", kTwoSites);
  const Result<Sweep> s = sweep(write("job.toml", kToy), {"training.micro_bach=1,2"});
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().code, ErrorCode::kUnusable);
  EXPECT_THAT(s.error().text(), HasSubstr("try \"micro_batch\""));
}

TEST_F(SweepTest, TablesReadBack) {
  write("two.toml", kTwoSites);
  const Sweep s = *sweep(write("job.toml", kToy), {"parallelism.pipeline=4,5"});
  const std::vector<SweepRow> rows = run_sweep(s, {});
  const std::vector<CsvRow> read = *parse_csv(sweep_csv(s, rows), "rows.csv");
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(*read[0].text("provenance"), "predicted");
  EXPECT_EQ(*read[0].text("status"), "ok");
  EXPECT_DOUBLE_EQ(*read[0].number("iteration_s"), figure(s, rows[0], "iteration_s"));
  EXPECT_EQ(*read[1].text("reason"), rows[1].reason);  // it has commas
  EXPECT_FALSE(read[1].has("iteration_s"));
  const Value first = *parse_json(
      sweep_json_lines(s, rows).substr(0, sweep_json_lines(s, rows).find('\n')), "rows.jsonl");
  EXPECT_EQ(*first.find("parallelism.pipeline")->get<int64_t>(), 4);
  EXPECT_TRUE(first.find("reason")->is_null());
}

// Algorithm 1 on Atlas' list of two datacenters of 600 GPUs: 20 pipelines of 60 partitions at C = 2
// (docs/laws/datacenter_selection.md).
TEST_F(SweepTest, AsksForTheChoiceOfDatacenters) {
  const std::string job =
      write("job.toml", test::datacenters({{"dc0", 600}, {"dc1", 600}}, "a100-80g") + R"(
[training]
global_batch = 60
[selection]
partitions = 60
micro_batches = 60
communication_to_compute = 2
)");
  const Sweep s = *sweep(job, {"cluster.datacenter.dc1.nodes=600,30,0"}, SweepAsk::kSelect);
  const std::vector<SweepRow> rows = run_sweep(s, {});
  EXPECT_EQ(figure(s, rows[0], "pipelines"), 20);
  EXPECT_EQ(figure(s, rows[0], "devices"), 1200);
  EXPECT_EQ(figure(s, rows[1], "pipelines"), 10);
  EXPECT_EQ(rows[2].status, SweepStatus::kUnusable);
}

TEST_F(SweepTest, AsksForTheBestPlan) {
  const std::string job = write("job.toml", R"(
[model]
preset = "llama3-8b"
sequence = 2048
[[cluster.datacenter]]
name = "oregon"
device = "h100-80g"
devices_per_node = 8
price = "2 USD/device-hour"
[training]
global_batch = 64
)");
  const Sweep s = *sweep(job, {"cluster.datacenter.oregon.nodes=1,2"}, SweepAsk::kPlan);
  const std::vector<SweepRow> rows = run_sweep(s, {});
  for (const SweepRow& row : rows) {
    ASSERT_EQ(row.status, SweepStatus::kOk) << row.reason;
    EXPECT_NEAR(figure(s, row, "cost_usd"),
                figure(s, row, "devices") * 2 / 3600 * figure(s, row, "iteration_s"), 1e-9);
    EXPECT_NEAR(figure(s, row, "cost_per_million_tokens_usd"),
                figure(s, row, "cost_usd") / (64 * 2048) * 1e6, 1e-9);
  }
  EXPECT_GT(figure(s, rows[1], "tokens_per_s"), 1.5 * figure(s, rows[0], "tokens_per_s"));
}

using SweepDeathTest = SweepTest;

TEST_F(SweepDeathTest, CallersKeepTheirPromises) {
  write("two.toml", kTwoSites);
  Sweep s = *sweep(write("job.toml", kToy), {"parallelism.pipeline=4,5"});
  EXPECT_DEATH(static_cast<void>(sweep_job(s, 2)), "configuration 2 of 2");
  EXPECT_DEATH(static_cast<void>(sweep_job(s, -1)), "configuration -1 of 2");
  EXPECT_DEATH(run_sweep(s, {.process = 3, .processes = 3}), "process 3 of 3");
  EXPECT_DEATH(static_cast<void>(sweep_outcome({})), "a sweep without a row");
  EXPECT_DEATH(pack_sweep_rows({{.configuration = 7, .reason = {}, .figures = {}}}),
               "row 7 is ok, and has 0 figures");
  s.paths.clear();
  EXPECT_DEATH(static_cast<void>(sweep_job(s, 0)), "0 paths for 1 axes");
}

}  // namespace
}  // namespace tombolo::sweep
