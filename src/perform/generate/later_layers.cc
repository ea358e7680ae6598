#include "perform/generate/later_layers.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tombolo::generate {
namespace {

Error not_believed(int64_t prompt, const std::string& why) {
  return {ErrorCode::kFailed, fmt::format("hidden states of prompt {}: {}", prompt, why), {}, ""};
}

}  // namespace

LaterLayers::LaterLayers(const Shard& shard, int64_t kv_bytes, const Clock& clock)
    : shard_(shard), kv_bytes_(kv_bytes), clock_(clock), pace_(shard.facts().model) {
  CHECK(!shard.facts().slice.embedding, "the first layers are an engine's");
}

LaterLayers::~LaterLayers() = default;

Status LaterLayers::take(std::span<const std::byte> bytes, const Say& say) {
  return take(TRY(decode_shard_message(bytes)), say);
}

Status LaterLayers::take(ShardMessage message, const Say& say) {
  const bool last = shard_.facts().slice.head;
  switch (message.word) {
    case ShardWord::kHidden:
      return take_hidden(std::move(message));
    case ShardWord::kLogits:
      return failed("logits for a rank that draws no tokens");
    case ShardWord::kDecode:
      return failed("a decode worker for a rank that takes layers alone");
    case ShardWord::kDrop:
      drop(message.prompt);
      if (!last) say(message);
      return {};
    case ShardWord::kDropAll:
      drop_all();
      if (!last) say(message);
      return {};
    case ShardWord::kHandOver:
      TRY(hand_over(message));
      if (!last) say(message);
      return {};
    case ShardWord::kSent:
      return take_sent(message, say);
    case ShardWord::kFailed:
      break;
  }
  drop(message.prompt);
  say(message);
  return {};
}

// Its pass is over: the first rank has its logits.
Status LaterLayers::hand_over(const ShardMessage& message) {
  const auto found = prompts_.find(message.prompt);
  if (found == prompts_.end() || !found->second.cache || found->second.waiting)
    return fail(not_believed(message.prompt, "handed over before they were read"));
  const ShardFacts& facts = shard_.facts();
  leaving_[message.prompt] = {.bytes = facts.kv().bytes(found->second.room)};
  handed_over_.push_back({.id = message.id,
                          .first_token = message.first_token,
                          .cache = std::move(found->second.cache),
                          .number = message.prompt,
                          .first_layer = facts.slice.first_layer,
                          .layers = facts.model.layers});
  prompts_.erase(found);
  return {};
}

// If the prompt was dropped with all others, no rank waits for this.
Status LaterLayers::take_sent(const ShardMessage& message, const Say& say) {
  const auto found = leaving_.find(message.prompt);
  if (found == leaving_.end()) return {};
  found->second.sent_before = true;
  if (found->second.bytes > 0) return {};
  leaving_.erase(found);
  say(message);
  return {};
}

void LaterLayers::left(int64_t prompt, const Say& say) {
  const auto found = leaving_.find(prompt);
  if (found == leaving_.end()) return;
  kv_bytes_used_ -= std::exchange(found->second.bytes, 0);
  if (!found->second.sent_before) return;
  leaving_.erase(found);
  say({.word = ShardWord::kSent, .prompt = prompt});
}

void LaterLayers::drop_all() {
  turns_.clear();
  prompts_.clear();
  leaving_.clear();
  handed_over_.clear();
  kv_bytes_used_ = 0;
}

Status LaterLayers::take_hidden(ShardMessage hidden) {
  const ShardFacts& facts = shard_.facts();
  const int64_t id = hidden.prompt;
  if (hidden.rows * facts.model.hidden != std::ssize(hidden.numbers))
    return fail(
        not_believed(id, fmt::format("{} numbers in {} rows, and the model has {} in each",
                                     hidden.numbers.size(), hidden.rows, facts.model.hidden)));
  if (hidden.room > facts.model.sequence)
    return fail(not_believed(id, fmt::format("{} tokens: the model has {} positions", hidden.room,
                                             facts.model.sequence)));
  const auto known = prompts_.find(id);
  const int64_t past =
      known == prompts_.end() || !known->second.cache ? 0 : known->second.cache->tokens();
  if (hidden.past != past) return fail(not_believed(id, "not the tokens that come next"));
  if (known == prompts_.end()) {
    const int64_t bytes = facts.kv().bytes(hidden.room);
    if (bytes > kv_bytes_ - kv_bytes_used_)
      return fail(
          not_believed(id, fmt::format("{} bytes of keys and values in addition to {} of {}", bytes,
                                       kv_bytes_used_, kv_bytes_)));
    kv_bytes_used_ += bytes;
    prompts_[id] = {.room = hidden.room, .waiting = true};
  } else {
    if (known->second.waiting || known->second.room != hidden.room)
      return fail(not_believed(id, "out of turn"));
    known->second.waiting = true;
  }
  turns_.push_back({std::move(hidden)});
  return {};
}

void LaterLayers::drop(int64_t prompt) {
  const auto found = prompts_.find(prompt);
  if (found == prompts_.end()) return;
  std::erase_if(turns_, [&](const Turn& turn) { return turn.hidden.prompt == prompt; });
  kv_bytes_used_ -= shard_.facts().kv().bytes(found->second.room);
  prompts_.erase(found);
}

bool LaterLayers::work_once(SimTime until, const Say& say) {
  if (idle()) return false;
  Turn& turn = turns_.front();
  const ShardFacts& facts = shard_.facts();
  const int64_t left = turn.pass ? turn.pass->layers_left() : facts.slice.layers;
  const LayerWork work{
      .rows = turn.hidden.rows, .past = turn.hidden.past, .head = left == 1 && facts.slice.head};
  const SimTime begin = clock_.now();
  if (!pace_.fits(work, until, begin)) return false;
  if (const Status done = do_layer(turn); !done) {
    const ShardMessage failed{
        .word = ShardWord::kFailed, .prompt = turn.hidden.prompt, .text = done.error().message};
    drop(failed.prompt);
    say(failed);
    return true;
  }
  pace_.observe(work, clock_.now() - begin);
  if (turn.pass->layers_left() == 0) finish(say);
  return true;
}

// Keys and values are allocated with the first layer, which is computed in a gap.
Status LaterLayers::do_layer(Turn& turn) {
  Prompt& prompt = prompts_.at(turn.hidden.prompt);
  if (!prompt.cache) prompt.cache = std::make_unique<KvCache>(shard_.facts().kv(), prompt.room);
  if (!turn.pass) {
    turn.pass = TRY(shard_.begin({.hidden = turn.hidden.numbers}, *prompt.cache));
    turn.hidden.numbers = {};
  }
  return turn.pass->do_layer();
}

void LaterLayers::finish(const Say& say) {
  Turn& turn = turns_.front();
  const auto output = turn.pass->output();
  ShardMessage out{.word = ShardWord::kLogits,
                   .prompt = turn.hidden.prompt,
                   .rows = 1,
                   .numbers = {output.begin(), output.end()}};
  if (!shard_.facts().slice.head) {
    out.word = ShardWord::kHidden;
    out.past = turn.hidden.past;
    out.room = turn.hidden.room;
    out.rows = turn.hidden.rows;
  }
  prompts_.at(out.prompt).waiting = false;
  turns_.pop_front();
  say(out);
}

}  // namespace tombolo::generate
