#include "perform/weights/weight_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>

#include "base/file.h"
#include "base/json.h"
#include "perform/state/checkpoint.h"
#include "perform/weights/export_weights.h"

namespace tombolo::weights {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Folders : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "weights.XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string folder_;
};

model::Model gpt2_model() {
  return {.layers = 2,
          .hidden = 4,
          .heads = 2,
          .kv_heads = 2,
          .ffn = 6,
          .vocabulary = 5,
          .sequence = 3,
          .norm = model::Norm::kLayer,
          .activation = model::Activation::kGelu,
          .positions = model::Positions::kLearned,
          .bias = true,
          .tied_embeddings = true};
}

// Every number another one.
std::vector<kernels::NamedTensor> state_of(const model::Model& m) {
  std::vector<kernels::NamedTensor> out;
  float next = 0.5F;
  for (const Tensor& tensor : tensors_of(m)) {
    std::vector<float> numbers(static_cast<size_t>(std::accumulate(
        tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>())));
    for (float& number : numbers) number = next++;
    kernels::Payload bytes(4 * numbers.size());
    from_floats(NumberType::kF32, numbers, bytes);
    out.push_back({tensor.name, "F32", tensor.shape, std::move(bytes)});
  }
  return out;
}

std::string write_checkpoint(const std::string& folder, const model::Model& m,
                             const std::vector<kernels::NamedTensor>& state) {
  CHECK(make_directories(folder).has_value(), "cannot create {}", folder);
  state::Manifest manifest{.step = 7, .seed = 1, .plan_digest = "", .precision = "fp32"};
  manifest.model = m;
  auto shard = state::write_shard(folder, 7, 0, 0, state);
  CHECK(shard.has_value(), "{}", shard.error().text());
  manifest.shards = {*shard};
  const Status committed = state::commit_checkpoint(folder, manifest);
  CHECK(committed.has_value(), "{}", committed.error().text());
  return folder;
}

// Transposed matrices, three in one, and tied ends: each comes back as it was, alone.
TEST_F(Folders, GiveBackWhatWasExported) {
  const model::Model m = gpt2_model();
  const auto state = state_of(m);
  const std::string checkpoints = write_checkpoint(folder_ + "/checkpoints", m, state);
  const auto done = export_weights(
      {.checkpoint = checkpoints, .out = folder_ + "/out", .family = {}, .file_bytes = 300});
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_EQ(done->family, Family::kGpt2);
  EXPECT_EQ(done->step, 7);
  EXPECT_EQ(done->parameters, model::parameters(m));
  EXPECT_GT(done->files.size(), 3u) << "files of 300 bytes, the index and config.json";
  const auto folder = WeightFolder::open(folder_ + "/out");
  ASSERT_TRUE(folder) << folder.error().text();
  const Status fits = folder->check(m);
  ASSERT_TRUE(fits) << fits.error().text();
  for (const kernels::NamedTensor& tensor : state) {
    std::vector<float> numbers(tensor.bytes.size() / 4), expected(numbers.size());
    ASSERT_TRUE(folder->read(tensor.name, tensor.shape, numbers)) << tensor.name;
    to_floats(NumberType::kF32, tensor.bytes, expected);
    EXPECT_EQ(numbers, expected) << tensor.name;
  }
}

// In how many files they lie does not matter, nor in which type where that holds them; a number does.
TEST_F(Folders, HaveADigestOfTheirNumbers) {
  const model::Model m = gpt2_model();
  auto state = state_of(m);
  for (kernels::NamedTensor& tensor : state) {  // below 100, n + 1/2 has the 8 bits of BF16
    std::vector<float> numbers(tensor.bytes.size() / 4);
    to_floats(NumberType::kF32, tensor.bytes, numbers);
    for (float& number : numbers) number = std::fmod(number, 100.0F);
    from_floats(NumberType::kF32, numbers, tensor.bytes);
  }
  const auto digest_of = [&](const std::string& name, NumberType type, int64_t file_bytes) {
    const std::string out = folder_ + "/" + name;
    const auto done = export_weights({.checkpoint = write_checkpoint(out + "-state", m, state),
                                      .out = out,
                                      .family = {},
                                      .type = type,
                                      .file_bytes = file_bytes});
    CHECK(done, "{}", done.error().text());
    return WeightFolder::open(out)->digest().value();
  };
  const std::string digest = digest_of("one", NumberType::kF32, 1'000'000);
  EXPECT_EQ(digest_of("many", NumberType::kF32, 300), digest);
  EXPECT_EQ(digest_of("half", NumberType::kBf16, 300), digest);
  for (kernels::NamedTensor& tensor : state) {
    tensor.bytes[2] ^= std::byte{1};
    EXPECT_NE(digest_of("other-" + tensor.name, NumberType::kF32, 300), digest) << tensor.name;
    tensor.bytes[2] ^= std::byte{1};
  }
}

// c_attn is [4 inputs, 3 x 4 outputs]: its first row holds the first columns of query, key, value.
TEST_F(Folders, Gpt2LiesInputsFirst) {
  const model::Model m = gpt2_model();
  const auto state = state_of(m);
  const std::string checkpoints = write_checkpoint(folder_ + "/checkpoints", m, state);
  const auto done = export_weights({.checkpoint = checkpoints, .out = folder_ + "/out"});
  ASSERT_TRUE(done) << done.error().text();
  const auto file = state::read_safetensors(done->files[0]);
  ASSERT_TRUE(file) << file.error().text();
  const auto numbers_of = [](const auto& tensors, const std::string& name) {
    for (const kernels::NamedTensor& tensor : tensors) {
      if (tensor.name != name) continue;
      std::vector<float> out(tensor.bytes.size() / 4);
      to_floats(NumberType::kF32, tensor.bytes, out);
      return out;
    }
    return std::vector<float>();
  };
  const auto three = numbers_of(file->tensors, "transformer.h.1.attn.c_attn.weight");
  ASSERT_EQ(three.size(), 48u);
  const char* parts[] = {"query", "key", "value"};
  for (size_t part = 0; part < 3; ++part) {
    const auto own = numbers_of(state, fmt::format("layers.1.attention.{}.weight", parts[part]));
    ASSERT_EQ(own.size(), 16u);
    for (size_t output = 0; output < 4; ++output) {
      EXPECT_EQ(three[4 * part + output], own[4 * output]) << parts[part];
    }
  }
}

TEST_F(Folders, AreNotOverwrittenAndDamageIsNamed) {
  const model::Model m = gpt2_model();
  const std::string checkpoints = write_checkpoint(folder_ + "/checkpoints", m, state_of(m));
  const ExportOptions options{.checkpoint = checkpoints, .out = folder_ + "/out"};
  ASSERT_TRUE(export_weights(options));
  const auto again = export_weights(options);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kUnusable);
  EXPECT_THAT(again.error().text(), HasSubstr("there are weights already"));
  // A bit of the checkpoint.
  for (const auto& entry : fs::recursive_directory_iterator(checkpoints)) {
    if (entry.path().extension() != ".safetensors") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x7f');
  }
  const auto damaged = export_weights({.checkpoint = checkpoints, .out = folder_ + "/other"});
  ASSERT_FALSE(damaged);
  EXPECT_FALSE(fs::exists(folder_ + "/other/config.json")) << "half a model looks whole";
}

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// 4 GB of holes: what is not asked for is not read.
TEST_F(Folders, AreReadTensorByTensor) {
  model::Model m{.layers = 1,
                 .hidden = 1024,
                 .heads = 8,
                 .kv_heads = 8,
                 .ffn = 2048,
                 .vocabulary = 1'000'000,
                 .sequence = 16};
  m.tied_embeddings = true;
  int64_t next = 0;
  Value::Table header;
  for (const TheirTensor& tensor : their_tensors(Family::kLlama, m)) {
    int64_t bytes = 4;
    for (const int64_t extent : tensor.shape) bytes *= extent;
    header.emplace_back(
        tensor.name,
        Value::Table{{"dtype", "F32"},
                     {"shape", Value::Array(tensor.shape.begin(), tensor.shape.end())},
                     {"data_offsets", Value::Array{Value(next), Value(next + bytes)}}});
    next += bytes;
  }
  const std::string text = to_json(Value(std::move(header)), -1);
  std::string start(8, '\0');
  for (size_t i = 0; i < 8; ++i) start[i] = static_cast<char>(text.size() >> (8 * i));
  ASSERT_TRUE(write_file(folder_ + "/model.safetensors", start + text));
  fs::resize_file(folder_ + "/model.safetensors", static_cast<uintmax_t>(next) + 8 + text.size());
  ASSERT_TRUE(write_file(folder_ + "/config.json", config_text(Family::kLlama, m, {})));

  const int64_t before = resident_bytes();
  const auto folder = WeightFolder::open(folder_);
  ASSERT_TRUE(folder) << folder.error().text();
  ASSERT_TRUE(folder->check(m));
  std::vector<float> matrix(2048 * 1024, 1);  // 8 MiB
  ASSERT_TRUE(folder->read("layers.0.mlp.up.weight", {2048, 1024}, matrix));
  EXPECT_EQ(matrix[123'456], 0);
  EXPECT_LT(resident_bytes() - before, int64_t{64} << 20);
}

}  // namespace
}  // namespace tombolo::weights
