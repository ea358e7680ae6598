// What ranks that share a model's layers answer to a prompt, for tests/end_to_end/prompt_ranks_test.py:
//
//   ring_text FOLDER SHARDS PROMPT TOKENS OUT [CONTEXT]
//
// PROMPT: ids, separated by commas. It is answered with TOKENS tokens, always the likeliest, beside
// another prompt, by an engine with the first layers and as many others as there are shards, two at
// least. OUT: float32, the logits from which each token was taken, as the last rank sends them. Prints
// the tokens. CHECKs that each shard takes its part of memory and no more.
#include <cstdlib>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/file.h"
#include "perform/generate/engine.h"
#include "perform/generate/later_layers.h"
#include "perform/train/prefill_shard.h"

namespace tombolo {
namespace {

using generate::LaterLayers;
using generate::ShardMessage;

std::vector<int64_t> parse_ids(const char* text) {
  std::vector<int64_t> out;
  for (const char* at = text; *at;) {
    char* end = nullptr;
    out.push_back(std::strtoll(at, &end, 10));
    at = *end == ',' ? end + 1 : end;
  }
  return out;
}

// A ring in one process, whose messages take no time.
class Ring {
 public:
  Status open(const std::string& path, int64_t shards, int64_t context) {
    const weights::WeightFolder folder = TRY(weights::WeightFolder::open(path));
    const model::Model& model = folder.config().model;
    for (int64_t i = 0; i < shards; ++i) {
      const model::Slice slice = model::stage_slice(model, shards, i);
      shards_.push_back(TRY(train::load_shard(folder, slice, context)));
      const int64_t bytes = shards_.back()->facts().weight_bytes;
      CHECK(bytes == 4 * model::parameters(model, slice), "{} bytes of weights", bytes);
      limits_.layers_counted = std::max(limits_.layers_counted, slice.layers);
      if (i > 0) later_.emplace_back(*shards_.back(), limits_.kv_bytes, clock_);
    }
    engine_.emplace(*shards_.front(), limits_, clock_);
    return {};
  }

  Status answer(const std::vector<int64_t>& prompt, int64_t tokens_max) {
    CHECK(!engine_->admit({.id = 1, .tokens = prompt, .tokens_max = tokens_max}), "refused");
    CHECK(!engine_->admit({.id = 2, .tokens = {1, 2}, .tokens_max = tokens_max}), "refused");
    while (engine_->requests() > 0) {
      engine_->work_once(kNever, tell());
      for (const ShardMessage& message : engine_->take_departed()) give(0, message);
      for (size_t i = 0; i < later_.size(); ++i) later_[i].work_once(kNever, from(i));
    }
    return status;
  }

  std::vector<int64_t> tokens;
  std::vector<float> logits;
  Status status;

 private:
  generate::Engine::Tell tell() {
    return [this](const generate::EngineEvent& event) {
      if (event.kind == generate::StepKind::kFailed) status = failed(event.message);
      if (event.kind == generate::StepKind::kToken && event.id == 1) tokens.push_back(event.token);
    };
  }
  LaterLayers::Say from(size_t i) {
    return [this, i](const ShardMessage& message) { give(i + 1, message); };
  }
  void give(size_t to, const ShardMessage& message) {
    if (to == later_.size() && message.prompt == 1)
      logits.insert(logits.end(), message.numbers.begin(), message.numbers.end());
    const Status taken = to == later_.size() ? engine_->arrive(message, tell())
                                             : later_[to].take(encode(message), from(to));
    if (!taken) status = taken;
  }

  SystemClock clock_;
  generate::EngineLimits limits_;
  std::vector<std::unique_ptr<generate::Shard>> shards_;
  std::deque<LaterLayers> later_;
  std::optional<generate::Engine> engine_;
};

}  // namespace
}  // namespace tombolo

int main(int argc, char** argv) {
  using namespace tombolo;
  CHECK(argc == 6 || argc == 7, "ring_text FOLDER SHARDS PROMPT TOKENS OUT [CONTEXT]");
  Ring ring;
  Status done = ring.open(argv[1], std::atoll(argv[2]), argc == 7 ? std::atoll(argv[6]) : 0);
  if (done) done = ring.answer(parse_ids(argv[3]), std::atoll(argv[4]));
  if (!done) {
    fmt::print(stderr, "{}\n", done.error().text());
    return done.error().exit_code();
  }
  fmt::print("{}\n", fmt::join(ring.tokens, ","));
  const auto* bytes = reinterpret_cast<const char*>(ring.logits.data());
  return write_file(argv[5], {bytes, 4 * ring.logits.size()}) ? 0 : 1;
}
