// What a model with weights of others answers to a prompt, for tests/end_to_end/prefill_test.py:
//
//   prefill_text FOLDER SHARDS PAUSE PROMPT TOKENS OUT [CONTEXT]
//
// PROMPT: ids, separated by commas. Its prefill goes through so many shards, one after the other,
// and rests after every PAUSE layers (0: never), while another prompt goes through the same shards.
// Then keys and values are handed over, span by span, to a whole model of its own, which decodes
// TOKENS tokens, always the likeliest. OUT: float32, the logits from which each token was taken.
// Prints the tokens. CHECKs that memory is what was counted.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/file.h"
#include "perform/generate/sampling.h"
#include "perform/train/prefill_shard.h"

namespace tombolo {
namespace {

using generate::KvCache;
using generate::Shard;

struct Case {
  std::string folder;
  int64_t shards = 1, pause = 0, tokens = 1, context = 0;
  std::vector<int64_t> prompt;
};

std::vector<int64_t> parse_ids(const char* text) {
  std::vector<int64_t> out;
  for (const char* at = text; *at;) {
    char* end = nullptr;
    out.push_back(std::strtoll(at, &end, 10));
    at = *end == ',' ? end + 1 : end;
  }
  return out;
}

// Runs the pass to its end, and in its pauses a prompt of one token from begin to end.
Status run(const Shard& shard, generate::Pass& pass, int64_t pause,
           const generate::PassInput& other) {
  for (int64_t done = 0; pass.layers_left() > 0; ++done) {
    if (pause > 0 && done % pause == 0) {
      KvCache cache(shard.facts().kv(), 1);
      const auto between = TRY(shard.begin(other, cache));
      while (between->layers_left() > 0) TRY(between->do_layer());
    }
    TRY(pass.do_layer());
  }
  return {};
}

struct Answer {
  std::vector<int64_t> tokens;
  std::vector<float> logits;

  int64_t add(std::span<const float> row) {
    Random none(0);
    logits.insert(logits.end(), row.begin(), row.end());
    tokens.push_back(generate::sample(row, {}, none).value());
    return tokens.back();
  }
};

Result<Answer> answer(const Case& c) {
  const weights::WeightFolder folder = TRY(weights::WeightFolder::open(c.folder));
  const model::Model& model = folder.config().model;
  const auto room = static_cast<int64_t>(c.prompt.size()) + c.tokens;
  const auto whole = TRY(train::load_shard(folder, model::stage_slice(model, 1, 0), c.context));
  CHECK(whole->facts().weight_bytes == 4 * model::parameters(model), "{} bytes of weights",
        whole->facts().weight_bytes);
  KvCache kept(whole->facts().kv(), room);
  Answer out;
  std::vector<float> hidden;
  const std::vector<float> one(static_cast<size_t>(model.hidden), 0.25F);
  for (int64_t i = 0; i < c.shards; ++i) {
    const model::Slice slice = model::stage_slice(model, c.shards, i);
    const auto shard = TRY(train::load_shard(folder, slice, c.context));
    CHECK(shard->facts().weight_bytes == 4 * model::parameters(model, slice), "{} bytes of weights",
          shard->facts().weight_bytes);
    KvCache cache(shard->facts().kv(), static_cast<int64_t>(c.prompt.size()));
    CHECK(cache.bytes() == 8 * slice.layers * cache.capacity() * model.kv_heads * model.head_size(),
          "{} bytes of keys and values", cache.bytes());
    generate::PassInput input, other;
    if (slice.embedding) {
      input.tokens = c.prompt;
      other.tokens = std::span(c.prompt).first(1);
    } else {
      input.hidden = hidden;
      other.hidden = one;
    }
    const auto pass = TRY(shard->begin(input, cache));
    TRY(run(*shard, *pass, c.pause, other));
    hidden.assign(pass->output().begin(), pass->output().end());
    copy_layers(cache, kept, slice.first_layer);
  }
  std::vector<int64_t> next = {out.add(hidden)};
  while (static_cast<int64_t>(out.tokens.size()) < c.tokens) {
    const auto pass = TRY(whole->begin({.tokens = next}, kept));
    TRY(run(*whole, *pass, c.pause, {.tokens = std::span(c.prompt).first(1)}));
    next = {out.add(pass->output())};
  }
  return out;
}

}  // namespace
}  // namespace tombolo

int main(int argc, char** argv) {
  CHECK(argc == 7 || argc == 8, "prefill_text FOLDER SHARDS PAUSE PROMPT TOKENS OUT [CONTEXT]");
  const auto answer = tombolo::answer({.folder = argv[1],
                                       .shards = std::atoll(argv[2]),
                                       .pause = std::atoll(argv[3]),
                                       .tokens = std::atoll(argv[5]),
                                       .context = argc == 8 ? std::atoll(argv[7]) : 0,
                                       .prompt = tombolo::parse_ids(argv[4])});
  if (!answer) {
    fmt::print(stderr, "{}\n", answer.error().text());
    return answer.error().exit_code();
  }
  fmt::print("{}\n", fmt::join(answer->tokens, ","));
  const auto* bytes = reinterpret_cast<const char*>(answer->logits.data());
  return tombolo::write_file(argv[6], {bytes, 4 * answer->logits.size()}) ? 0 : 1;
}
