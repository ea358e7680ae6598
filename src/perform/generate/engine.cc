#include "perform/generate/engine.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tombolo::generate {
namespace {

constexpr int kRefusedMax = 8;

}  // namespace

struct Engine::Work {
  Work(Request request_in, KvShape shape, int64_t room)
      : request(std::move(request_in)),
        cache(std::make_unique<KvCache>(shape, room)),
        random(Random(static_cast<uint64_t>(request.sampling.seed)).stream("tokens")),
        next(request.tokens) {}

  Request request;
  std::unique_ptr<KvCache> cache;
  Random random;
  std::vector<int64_t> next;  // the tokens of the next pass
  int64_t given = 0;          // tokens of the answer
  std::unique_ptr<Pass> pass = {};
};

Engine::Engine(const Shard& shard, EngineLimits limits, const Clock& clock)
    : shard_(shard), limits_(limits), clock_(clock), times_(shard.facts().model) {
  const ShardFacts& facts = shard.facts();
  CHECK(facts.slice.embedding && facts.slice.head && facts.slice.layers == facts.model.layers,
        "{} of {} layers are no whole model", facts.slice.layers, facts.model.layers);
}

Engine::~Engine() = default;

std::optional<Refused> Engine::admit(Request request) {
  const ShardFacts& facts = shard_.facts();
  const auto prompt = static_cast<int64_t>(request.tokens.size());
  if (prompt == 0 || request.tokens_max < 1) return Refused{Refusal::kInvalid, "an empty prompt"};
  if (request.share == Share::kDecode && request.tokens_max < 2)
    return Refused{Refusal::kInvalid,
                   "an answer that ends with its first token is not handed over"};
  for (const int64_t token : request.tokens) {
    if (token >= 0 && token < facts.model.vocabulary) continue;
    return Refused{Refusal::kInvalid,
                   fmt::format("token {}: the vocabulary has {}", token, facts.model.vocabulary)};
  }
  const auto same = [&](const auto& work) { return work->request.id == request.id; };
  if (std::ranges::any_of(work_, same) || awaiting_.contains(request.id))
    return Refused{Refusal::kInvalid, "its id is in use"};
  // Before they are added: any numbers may have come.
  if (prompt > facts.model.sequence || request.tokens_max > facts.model.sequence - prompt) {
    return Refused{Refusal::kTooLong,
                   fmt::format("a prompt of {} tokens and an answer of up to {}: the model has {} "
                               "positions",
                               prompt, request.tokens_max, facts.model.sequence)};
  }
  // The last token of an answer is never read again.
  const int64_t room = request.share == Share::kPrefill ? prompt : prompt + request.tokens_max - 1;
  const int64_t bytes = facts.kv().bytes(room);
  if (bytes > limits_.kv_bytes) {
    return Refused{Refusal::kTooLong, fmt::format("keys and values of {} tokens take {} bytes, and "
                                                  "all prompts together have {}",
                                                  room, bytes, limits_.kv_bytes)};
  }
  if (requests() >= limits_.requests_max || bytes > limits_.kv_bytes - kv_bytes_used_) {
    return Refused{Refusal::kBusy, fmt::format("{} prompts are being answered", requests())};
  }
  kv_bytes_used_ += bytes;
  auto work = std::make_unique<Work>(std::move(request), facts.kv(), room);
  if (work->request.share == Share::kDecode) {
    const int64_t id = work->request.id;
    awaiting_.emplace(id, std::move(work));
  } else {
    work_.push_back(std::move(work));
  }
  return std::nullopt;
}

void Engine::release(int64_t kv_bytes) {
  CHECK(kv_bytes >= 0 && kv_bytes <= kv_bytes_used_, "{} bytes of {} are free again", kv_bytes,
        kv_bytes_used_);
  kv_bytes_used_ -= kv_bytes;
}

KvCache* Engine::awaiting(int64_t id) {
  const auto found = awaiting_.find(id);
  return found == awaiting_.end() ? nullptr : found->second->cache.get();
}

int64_t Engine::awaited_tokens(int64_t id) const {
  const auto found = awaiting_.find(id);
  CHECK(found != awaiting_.end(), "prompt {} waits for no rows", id);
  return static_cast<int64_t>(found->second->request.tokens.size());
}

Status Engine::adopt(int64_t id, int64_t first_token) {
  const int64_t vocabulary = shard_.facts().model.vocabulary;
  if (first_token < 0 || first_token >= vocabulary)
    return failed(fmt::format("token {}: the vocabulary has {}", first_token, vocabulary));
  auto node = awaiting_.extract(id);
  CHECK(!node.empty(), "prompt {} waits for no rows", id);
  Work& work = *node.mapped();
  work.cache->append(static_cast<int64_t>(work.request.tokens.size()));
  skip_sample(work.request.sampling, work.random);
  work.given = 1;
  work.next.assign(1, first_token);
  work_.push_back(std::move(node.mapped()));
  return {};
}

void Engine::cancel(int64_t id) {
  if (const auto node = awaiting_.extract(id); !node.empty()) {
    kv_bytes_used_ -= node.mapped()->cache->bytes();
    return;
  }
  const auto found =
      std::ranges::find_if(work_, [&](const auto& work) { return work->request.id == id; });
  if (found == work_.end()) return;
  kv_bytes_used_ -= (*found)->cache->bytes();
  work_.erase(found);
}

Status Engine::begin_pass(Work& work) {
  if (!work.pass) work.pass = TRY(shard_.begin({.tokens = work.next}, *work.cache));
  return {};
}

LayerWork Engine::next_work() const {
  CHECK(!idle(), "no layer is due");
  const Work& work = *work_.front();
  const int64_t left = work.pass ? work.pass->layers_left() : shard_.facts().slice.layers;
  return {.rows = static_cast<int64_t>(work.next.size()),
          .past = work.cache->tokens(),
          .head = left == 1};
}

std::vector<int64_t> Engine::turns() const {
  std::vector<int64_t> out;
  for (const auto& work : work_) out.push_back(static_cast<int64_t>(work->next.size()));
  return out;
}

void Engine::doubt(const LayerWork& work) {
  if (++doubts_ % kRefusedMax == 0) times_.forget_slowest(work);
}

SimDuration Engine::next_layer() const { return times_.expect(next_work()); }

void Engine::do_layer(const Tell& tell) {
  const LayerWork layer = next_work();
  Work& work = *work_.front();
  const SimTime begin = clock_.now();
  Status done = begin_pass(work);
  if (done) done = work.pass->do_layer();
  if (!done) {
    return end_first(tell, {.kind = EngineEventKind::kFailed, .message = done.error().message});
  }
  times_.observe(layer, clock_.now() - begin);
  if (work.pass->layers_left() == 0) finish_pass(tell);
}

void Engine::finish_pass(const Tell& tell) {
  Work& work = *work_.front();
  const auto token = sample(work.pass->output(), work.request.sampling, work.random);
  if (!token) {
    return end_first(tell, {.kind = EngineEventKind::kFailed, .message = token.error().message});
  }
  if (std::ranges::find(work.request.stop, *token) != work.request.stop.end()) {
    return end_first(tell, {.kind = EngineEventKind::kStop});
  }
  work.pass.reset();
  tell({.id = work.request.id, .kind = EngineEventKind::kToken, .token = *token});
  if (++work.given == work.request.tokens_max) {
    return end_first(tell, {.kind = EngineEventKind::kLength});
  }
  if (work.request.share == Share::kPrefill) return hand_over_first(*token);
  work.next.assign(1, *token);
  std::rotate(work_.begin(), work_.begin() + 1, work_.end());
}

// Its memory counts on.
void Engine::hand_over_first(int64_t first_token) {
  Work& work = *work_.front();
  handed_over_.push_back(
      {.id = work.request.id, .first_token = first_token, .cache = std::move(work.cache)});
  work_.pop_front();
}

void Engine::end_first(const Tell& tell, EngineEvent event) {
  event.id = work_.front()->request.id;
  cancel(event.id);
  tell(event);
}

bool Engine::work_once(SimTime until, const Tell& tell) {
  if (idle()) return false;
  const SimDuration left = until - clock_.now();
  if (next_layer() > left) {
    if (left.ns <= 0 || until == refused_until_) return false;
    refused_until_ = until;
    if (++refused_ % kRefusedMax == 0) times_.forget_slowest(next_work());
    return false;
  }
  refused_ = 0;
  do_layer(tell);
  return true;
}

int64_t Engine::work_until(SimTime until, const Tell& tell) {
  int64_t done = 0;
  while (work_once(until, tell)) ++done;
  return done;
}

}  // namespace tombolo::generate
