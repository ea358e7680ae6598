#include "ui/serve/request_desk.h"

#include <algorithm>
#include <utility>

namespace tombolo::serve {
namespace {

constexpr int64_t kCompletionTokens = 16;  // OpenAI's own, where max_tokens is left out

}  // namespace

std::unique_ptr<Place> Place::take(std::atomic<int64_t>& taken, int64_t most) {
  if (taken.fetch_add(1) < most) return std::make_unique<Place>(taken);
  --taken;
  return nullptr;
}

RequestDesk::RequestDesk(const ServeOptions& options, Backend& backend,
                         text::TextEncoder& tokenizer, const Clock& clock, ServeMetrics& metrics)
    : options_(options),
      backend_(backend),
      tokenizer_(tokenizer),
      clock_(clock),
      metrics_(metrics),
      random_(options.seed) {}

ApiResult<RequestDesk::Prompt> RequestDesk::prompt_of(const ApiRequest& request) {
  Prompt out{.tokens = request.tokens, .stop = options_.end, .stop_strings = request.stop};
  std::vector<int64_t> begin = options_.begin;
  if (!request.tokens.empty()) begin.clear();
  if (!request.messages.empty()) {
    auto chat = chat_prompt(options_.chat, request.messages, tokenizer_);
    if (!chat) return bad_request("messages", chat.error().message);
    out.tokens = std::move(chat->tokens);
    if (chat->begins) begin.clear();
    out.stop.insert(out.stop.end(), chat->stop.begin(), chat->stop.end());
    if (!request.ignore_eos)
      std::ranges::move(chat->stop_strings, std::back_inserter(out.stop_strings));
  } else if (request.text) {
    auto tokens = tokenizer_.encode_plain(*request.text);
    if (!tokens) return bad_request("prompt", tokens.error().message);
    out.tokens = std::move(*tokens);
    out.tokens.insert(out.tokens.end(), options_.after.begin(), options_.after.end());
  }
  if (request.ignore_eos) out.stop.clear();
  out.tokens.insert(out.tokens.begin(), begin.begin(), begin.end());
  if (out.tokens.empty()) return bad_request("prompt", "The prompt is empty.");
  return out;
}

ApiResult<int64_t> RequestDesk::tokens_max(const ApiRequest& request, bool chat,
                                           int64_t prompt) const {
  const ServeLimits& limits = options_.limits;
  if (prompt > limits.prompt_tokens || prompt >= options_.positions) {
    return tl::unexpected(
        too_long(fmt::format("This server takes prompts of up to {} tokens; this one has {}.",
                             std::min(limits.prompt_tokens, options_.positions - 1), prompt)));
  }
  const int64_t room = std::min(limits.answer_tokens, options_.positions - prompt);
  if (!request.tokens_max) return chat ? room : std::min(room, kCompletionTokens);
  if (*request.tokens_max > room) {
    return tl::unexpected(
        too_long(fmt::format("After a prompt of {} tokens, `max_tokens` may be {} at most; it is "
                             "{}.",
                             prompt, room, *request.tokens_max)));
  }
  return *request.tokens_max;
}

ApiResult<std::unique_ptr<Admitted>> RequestDesk::admit(bool chat, std::string_view body) {
  const SimTime arrived = clock_.now();
  AnswerFacts facts{.chat = chat, .model = options_.model, .created = options_.unix_time()};
  std::unique_ptr<Place> place;
  ApiRequest request;
  Prompt prompt;
  generate::Request wanted;
  {
    const std::lock_guard lock(one_at_a_time_);
    auto parsed = chat ? parse_chat(body) : parse_completion(body);
    if (!parsed) return tl::unexpected(std::move(parsed.error()));
    request = std::move(*parsed);
    const ServeLimits& limits = options_.limits;
    place = request.flex ? Place::take(flex_, limits.flex_requests)
                         : Place::take(running_, limits.requests);
    if (!place) return tl::unexpected(too_many_requests());
    if (request.model != options_.model) return tl::unexpected(unknown_model(request.model));
    auto made = prompt_of(request);
    if (!made) return tl::unexpected(std::move(made.error()));
    prompt = std::move(*made);
    wanted.sampling.seed = request.seed ? *request.seed : static_cast<int64_t>(random_.next() >> 1);
    facts.id = fmt::format("{}-{:016x}", chat ? "chatcmpl" : "cmpl", random_.next());
  }
  const auto tokens = static_cast<int64_t>(prompt.tokens.size());
  const auto most = tokens_max(request, chat, tokens);
  if (!most) return tl::unexpected(most.error());
  if (request.tokens_min > *most) {
    return bad_request("min_tokens",
                       fmt::format("`min_tokens` may be {} at most, as many tokens as "
                                   "the answer may have.",
                                   *most));
  }
  wanted.tokens = std::move(prompt.tokens);
  wanted.tokens_max = *most;
  wanted.stop = std::move(prompt.stop);
  wanted.tokens_min = request.tokens_min;
  facts.flex = wanted.flex = request.flex;
  wanted.sampling.temperature = request.temperature;
  wanted.sampling.top_p = request.top_p;
  auto answer = backend_.admit(std::move(wanted));
  if (!answer) {
    switch (answer.error().why) {
      case generate::Refusal::kBusy:
        return tl::unexpected(overloaded(answer.error().message));
      case generate::Refusal::kTooLong:
        return tl::unexpected(too_long(answer.error().message));
      case generate::Refusal::kInvalid:
        return bad_request("prompt", answer.error().message);
    }
  }
  metrics_.prompt_tokens(tokens);
  return std::make_unique<Admitted>(
      Admitted{.place = std::move(place),
               .completion = Completion(std::move(*answer), std::move(prompt.stop_strings),
                                        tokenizer_, request.tokens_min),
               .facts = std::move(facts),
               .prompt_tokens = tokens,
               .stream = request.stream,
               .stream_usage = request.stream_usage,
               .arrived = arrived});
}

}  // namespace tombolo::serve
