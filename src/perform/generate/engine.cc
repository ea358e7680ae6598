#include "perform/generate/engine.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace tombolo::generate {

struct Engine::Work {
  Work(Request request_in, KvShape shape, int64_t room, int64_t bytes_in, int64_t number_in)
      : request(std::move(request_in)),
        bytes(bytes_in),
        number(number_in),
        cache(std::make_unique<KvCache>(shape, room)),
        random(Random(static_cast<uint64_t>(request.sampling.seed)).stream("tokens")),
        next(request.tokens) {}

  Request request;
  int64_t bytes = 0;   // that admission counted
  int64_t number = 0;  // to other ranks
  std::unique_ptr<KvCache> cache;
  Random random;
  std::vector<int64_t> next;  // the tokens of the next pass
  int64_t given = 0;          // tokens of the answer
  int64_t away_bytes = 0;     // of the pass that is under way
  std::unique_ptr<Pass> pass = {};
};

Engine::Engine(const Shard& shard, EngineLimits limits, const Clock& clock, int64_t first_number)
    : shard_(shard),
      limits_(limits),
      clock_(clock),
      pace_(shard.facts().model),
      next_number_(first_number) {
  const ShardFacts& facts = shard.facts();
  CHECK(facts.slice.embedding && facts.slice.head == (facts.slice.layers == facts.model.layers),
        "{} of {} layers are neither a whole model nor its first layers", facts.slice.layers,
        facts.model.layers);
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
  if (request.tokens_min > request.tokens_max)
    return Refused{Refusal::kInvalid, "an answer of more tokens than it may have"};
  if (in_use(request.id)) return Refused{Refusal::kInvalid, "its id is in use"};
  // Before they are added: any numbers may have come.
  if (prompt > facts.model.sequence || request.tokens_max > facts.model.sequence - prompt) {
    return Refused{Refusal::kTooLong,
                   fmt::format("a prompt of {} tokens and an answer of up to {}: the model has {} "
                               "positions",
                               prompt, request.tokens_max, facts.model.sequence)};
  }
  // The last token of an answer is never read again.
  const int64_t room = request.share == Share::kPrefill ? prompt : prompt + request.tokens_max - 1;
  const int64_t bytes = counted().bytes(room);
  if (bytes > limits_.kv_bytes) {
    return Refused{Refusal::kTooLong, fmt::format("keys and values of {} tokens take {} bytes, and "
                                                  "all prompts together have {}",
                                                  room, bytes, limits_.kv_bytes)};
  }
  const int64_t parts = request.flex && requests() > 0 ? 2 : 1;
  if (requests() >= limits_.requests_max / parts ||
      bytes > limits_.kv_bytes / parts - kv_bytes_used_) {
    return Refused{Refusal::kBusy, fmt::format("{} prompts are being answered", requests())};
  }
  kv_bytes_used_ += bytes;
  auto work = std::make_unique<Work>(std::move(request), facts.kv(), room, bytes, next_number_++);
  if (work->request.share == Share::kDecode) {
    const int64_t id = work->request.id;
    awaiting_.emplace(id, std::move(work));
  } else {
    work_.push_back(std::move(work));
  }
  return std::nullopt;
}

bool Engine::in_use(int64_t id) const {
  const auto same = [&](const auto& work) { return work->request.id == id; };
  return std::ranges::any_of(work_, same) || awaiting_.contains(id) ||
         std::ranges::any_of(
             away_, same, [](const auto& entry) -> const auto& { return entry.second; });
}

KvShape Engine::counted() const {
  KvShape shape = shard_.facts().kv();
  shape.layers = std::max(shape.layers, limits_.layers_counted);
  return shape;
}

void Engine::release(int64_t number) {
  const auto node = handed_bytes_.extract(number);
  if (!node.empty()) kv_bytes_used_ -= node.mapped();
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
  const auto same = [&](const auto& work) { return work->request.id == id; };
  if (const auto node = awaiting_.extract(id); !node.empty()) {
    forget(*node.mapped());
  } else if (const auto found = std::ranges::find_if(work_, same); found != work_.end()) {
    forget(**found);
    work_.erase(found);
  } else {
    const auto away = std::ranges::find_if(away_, [&](const auto& e) { return same(e.second); });
    if (away == away_.end()) return;
    away_bytes_ -= away->second->away_bytes;
    forget(*away->second);
    away_.erase(away);
  }
}

// Its memory is free, here at once and elsewhere before what is said next comes there.
void Engine::forget(const Work& work) {
  kv_bytes_used_ -= work.bytes;
  if (!shard_.facts().slice.head)
    departed_.push_back({.word = ShardWord::kDrop, .prompt = work.number});
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
          .head = left == 1 && shard_.facts().slice.head};
}

// A pass that has begun is finished.
bool Engine::due() const {
  if (idle()) return false;
  const Work& work = *work_.front();
  if (away_.empty() || work.pass) return true;
  const int64_t row = shard_.facts().model.hidden * static_cast<int64_t>(sizeof(float));
  return away_bytes_ + std::ssize(work.next) * row <= kAwayBytesMax;
}

std::vector<int64_t> Engine::turns() const {
  std::vector<int64_t> out(away_.size(), 1);  // they come back for a token each
  for (const auto& work : work_) out.push_back(static_cast<int64_t>(work->next.size()));
  return out;
}

SimDuration Engine::next_layer() const { return pace_.expect(next_work()); }

void Engine::do_layer(const Tell& tell) {
  CHECK(due(), "no layer is due");
  const LayerWork layer = next_work();
  Work& work = *work_.front();
  const SimTime begin = clock_.now();
  Status done = begin_pass(work);
  if (done) done = work.pass->do_layer();
  if (!done) {
    return end(work.request.id, tell, {.kind = StepKind::kFailed, .message = done.error().message});
  }
  pace_.observe(layer, clock_.now() - begin);
  if (work.pass->layers_left() == 0) finish_pass(tell);
}

void Engine::finish_pass(const Tell& tell) {
  if (!shard_.facts().slice.head) return depart_first();
  Work& work = *work_.front();
  if (!draw(work, work.pass->output(), tell)) return;
  work.pass.reset();
  if (work.request.share == Share::kPrefill) return hand_over(work);
  std::rotate(work_.begin(), work_.begin() + 1, work_.end());
}

// Until an answer is as long as it has to be, nothing that would end it is drawn.
Result<int64_t> Engine::draw_token(Work& work, std::span<const float> logits) {
  const Request& request = work.request;
  if (work.given >= request.tokens_min || request.stop.empty())
    return sample(logits, request.sampling, work.random);
  std::vector<float> allowed(logits.begin(), logits.end());
  for (const int64_t token : request.stop) {
    if (token >= 0 && token < std::ssize(allowed))
      allowed[static_cast<size_t>(token)] = std::numeric_limits<float>::lowest();
  }
  return sample(allowed, request.sampling, work.random);
}

// The token that follows, which the next pass is of. False: the answer has ended, and the work is gone.
bool Engine::draw(Work& work, std::span<const float> logits, const Tell& tell) {
  const int64_t id = work.request.id;
  const auto token = draw_token(work, logits);
  if (!token) {
    end(id, tell, {.kind = StepKind::kFailed, .message = token.error().message});
    return false;
  }
  if (std::ranges::find(work.request.stop, *token) != work.request.stop.end()) {
    end(id, tell, {.kind = StepKind::kStop});
    return false;
  }
  tell({.id = id, .kind = StepKind::kToken, .token = *token});
  if (++work.given == work.request.tokens_max) {
    end(id, tell, {.kind = StepKind::kLength});
    return false;
  }
  work.next.assign(1, *token);
  return true;
}

void Engine::depart_first() {
  Work& work = *work_.front();
  const auto output = work.pass->output();
  const auto rows = std::ssize(work.next);
  departed_.push_back({.word = ShardWord::kHidden,
                       .prompt = work.number,
                       .past = work.cache->tokens() - rows,
                       .room = work.cache->capacity(),
                       .rows = rows,
                       .numbers = {output.begin(), output.end()}});
  work.pass.reset();
  work.away_bytes = std::ssize(departed_.back().numbers) * static_cast<int64_t>(sizeof(float));
  away_bytes_ += work.away_bytes;
  away_.emplace(work.number, std::move(work_.front()));
  work_.pop_front();
}

Status Engine::arrive(const ShardMessage& message, const Tell& tell) {
  const bool logits = message.word == ShardWord::kLogits;
  if (message.word == ShardWord::kSent) {
    release(message.prompt);
    return {};
  }
  if (!logits && message.word != ShardWord::kFailed)
    return failed("the last rank of a prompt sends what is the first one's to say");
  const int64_t vocabulary = shard_.facts().model.vocabulary;
  if (logits && std::ssize(message.numbers) != vocabulary)
    return failed(
        fmt::format("{} logits: the vocabulary has {}", message.numbers.size(), vocabulary));
  auto node = away_.extract(message.prompt);
  if (node.empty()) return {};
  away_bytes_ -= node.mapped()->away_bytes;
  work_.push_back(std::move(node.mapped()));
  Work& work = *work_.back();
  if (!logits) {
    end(work.request.id, tell, {.kind = StepKind::kFailed, .message = message.text});
  } else if (draw(work, message.numbers, tell) && work.request.share == Share::kPrefill) {
    hand_over(work);
  }
  return {};
}

// By every rank that has a part of its cache. Its memory counts on.
void Engine::hand_over(Work& work) {
  const int64_t first_token = work.next.front();
  if (!shard_.facts().slice.head) {
    departed_.push_back({.word = ShardWord::kHandOver,
                         .prompt = work.number,
                         .first_token = first_token,
                         .id = work.request.id});
  }
  handed_bytes_.emplace(work.number, work.bytes);
  handed_over_.push_back({.id = work.request.id,
                          .first_token = first_token,
                          .cache = std::move(work.cache),
                          .number = work.number,
                          .first_layer = shard_.facts().slice.first_layer,
                          .layers = shard_.facts().model.layers});
  std::erase_if(work_, [&](const auto& each) { return each.get() == &work; });
}

void Engine::end(int64_t id, const Tell& tell, EngineEvent event) {
  event.id = id;
  cancel(id);
  tell(event);
}

bool Engine::work_once(SimTime until, const Tell& tell) {
  if (!due() || !pace_.fits(next_work(), until, clock_.now())) return false;
  do_layer(tell);
  return true;
}

int64_t Engine::work_until(SimTime until, const Tell& tell) {
  int64_t done = 0;
  while (work_once(until, tell)) ++done;
  return done;
}

}  // namespace tombolo::generate
