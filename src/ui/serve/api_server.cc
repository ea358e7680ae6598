#include "ui/serve/api_server.h"

#include <atomic>
#include <memory>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "perform/transport/http_server.h"
#include "ui/serve/request_desk.h"

namespace tombolo::serve {
namespace {

using transport::HttpClient;
using transport::HttpReply;
using transport::HttpRequest;

constexpr size_t kHeadMax = 16 * 1024;
constexpr size_t kMoreThreads = 16;  // than prompts at once: for who is refused, and for metrics
constexpr size_t kWaitingMax = 64;
constexpr size_t kConnectionsMax = 512;
constexpr SimDuration kGlance{100'000'000};  // how often to check whether the client is still there

// "http://localhost:3000" and its like: a page that a server of this machine sent.
bool is_of_this_machine(std::string_view origin) {
  const size_t scheme = origin.find("://");
  if (scheme == std::string_view::npos) return false;
  std::string_view host = origin.substr(scheme + 3);
  const size_t port = host.rfind(':');
  if (port != std::string_view::npos && host.find(']', port) == std::string_view::npos)
    host = host.substr(0, port);
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

ApiError error_of(const Piece& piece) {
  return piece.end == StepKind::kLost ? lost(piece.message) : server_error(piece.message);
}

}  // namespace

class ApiServer::Inside {
 public:
  Inside(ServeOptions options, Backend& backend, text::TextEncoder& tokenizer, const Clock& clock)
      : options_(std::move(options)),
        backend_(backend),
        clock_(clock),
        desk_(options_, backend, tokenizer, clock, metrics_) {}
  ~Inside() {
    stopping_ = true;
    http_.reset();
  }

  Status open();
  const transport::Address& address() const { return http_->address(); }

 private:
  Status check_who_can_reach() const;

  bool is_page_allowed(const std::string& origin) const {
    return !options_.keys.empty() || is_of_this_machine(origin);
  }
  void let_page_read(const HttpRequest& request, HttpReply& reply) const;
  std::optional<HttpReply> before_body(const HttpRequest& request) const;
  HttpReply preflight(const HttpRequest& request, const std::string& origin) const;
  HttpReply answer(const HttpRequest& request, HttpClient& client);
  HttpReply page(const HttpRequest& request) const;
  HttpReply complete(bool chat, const HttpRequest& request, HttpClient& client);
  HttpReply answer_whole(Admitted& admitted, const HttpClient& client);
  void stream(Admitted& admitted, HttpClient& client);
  static void stream_end(const Admitted& admitted, const Piece& piece, HttpClient& client);
  // The next piece; ended by time, by who leaves, or because the server stops.
  Piece next_piece(Admitted& admitted, const HttpClient& client);
  Value model_object() const;

  static HttpReply reply(const Value& value, int status = 200);
  static HttpReply refusal(const ApiError& error);

  ServeOptions options_;
  Backend& backend_;
  const Clock& clock_;
  ServeMetrics metrics_;
  RequestDesk desk_;
  std::atomic<bool> stopping_{false};
  std::unique_ptr<transport::HttpServer> http_;
};

// --- opening -------------------------------------------------------------------------------------

Status ApiServer::Inside::check_who_can_reach() const {
  if (transport::is_loopback(options_.listen.host)) return {};
  if (options_.certificate.empty()) {
    return unusable(fmt::format("{} can be reached by other hosts, and prompts, answers and keys "
                                "would cross the network in clear text",
                                options_.listen.text()),
                    "--certificate FILE --private-key FILE, or --listen 127.0.0.1:8000");
  }
  if (options_.keys.empty()) {
    return unusable(fmt::format("{} can be reached by other hosts, and any client could ask",
                                options_.listen.text()),
                    "--api-keys FILE, or --listen 127.0.0.1:8000");
  }
  return {};
}

Status ApiServer::Inside::open() {
  CHECK(options_.unix_time && options_.positions > 0 && !options_.model.empty(),
        "a server without a clock or a model");
  TRY(check_who_can_reach());
  const auto prompts =
      static_cast<size_t>(options_.limits.requests + options_.limits.flex_requests);
  http_ = TRY(transport::HttpServer::open(
      {.listen = options_.listen,
       .certificate = options_.certificate,
       .private_key = options_.private_key,
       .limits = {.threads = prompts + kMoreThreads,
                  .waiting = kWaitingMax,
                  .connections = kConnectionsMax,
                  .head_bytes = kHeadMax,
                  .body_bytes = static_cast<size_t>(options_.limits.body_bytes)}},
      {.answer = [this](const HttpRequest& request,
                        HttpClient& client) { return answer(request, client); },
       .before_body = [this](const HttpRequest& request) { return before_body(request); },
       .refusal =
           [](int status) {
             return refusal(status == 429 ? too_many_requests() : of_status(status));
           },
       .answered =
           [this](const HttpRequest& request, int status) {
             static const std::set<std::string> kPaths = {"/v1/completions", "/v1/chat/completions",
                                                          "/v1/models", "/health", "/metrics"};
             metrics_.request(kPaths.contains(request.path) ? request.path : "other", status);
           }}));
  return {};
}

// --- requests ------------------------------------------------------------------------------------

HttpReply ApiServer::Inside::reply(const Value& value, int status) {
  return {.status = status, .content_type = "application/json", .body = to_json(value, -1)};
}

HttpReply ApiServer::Inside::refusal(const ApiError& error) {
  HttpReply out = reply(error_object(error), error.status);
  if (error.retry_after_s > 0)
    out.headers.emplace_back("Retry-After", fmt::format("{}", error.retry_after_s));
  if (error.status == 401) out.headers.emplace_back("WWW-Authenticate", "Bearer");
  return out;
}

Value ApiServer::Inside::model_object() const {
  return Value::Table{{"id", options_.model},
                      {"object", "model"},
                      {"created", 0},
                      {"owned_by", "tombolo"},
                      {"max_model_len", options_.positions}};
}

// The page of a browser, if it is one that asks.
void ApiServer::Inside::let_page_read(const HttpRequest& request, HttpReply& reply) const {
  const std::string origin = request.header("origin");
  if (origin.empty() || !is_page_allowed(origin)) return;
  reply.headers.emplace_back("Access-Control-Allow-Origin", origin);
  reply.headers.emplace_back("Vary", "Origin");
}

HttpReply ApiServer::Inside::preflight(const HttpRequest& request,
                                       const std::string& origin) const {
  if (origin.empty() || !is_page_allowed(origin)) return refusal(of_status(403));
  return {.status = 204,
          .headers = {
              {"Access-Control-Allow-Methods", "GET, POST"},
              {"Access-Control-Allow-Headers", request.header("access-control-request-headers")},
              {"Access-Control-Max-Age", "600"}}};
}

std::optional<HttpReply> ApiServer::Inside::before_body(const HttpRequest& request) const {
  const auto with_page = [&](HttpReply out) {
    let_page_read(request, out);
    return out;
  };
  if (request.method == "OPTIONS" && !request.header("access-control-request-method").empty())
    return with_page(preflight(request, request.header("origin")));
  if (request.path == "/health") return std::nullopt;
  if (!options_.keys.allow(request.header("authorization")))
    return with_page(refusal(invalid_key()));
  // Compressed bodies would have no bound.
  const std::string coding = request.header("content-encoding");
  const bool is_form = request.header("content-type").starts_with("multipart/");
  if ((!coding.empty() && coding != "identity") || is_form)
    return with_page(refusal(of_status(415)));
  return std::nullopt;
}

HttpReply ApiServer::Inside::answer(const HttpRequest& request, HttpClient& client) {
  HttpReply out;
  const bool chat = request.path == "/v1/chat/completions";
  if (request.method == "POST" && (chat || request.path == "/v1/completions")) {
    out = complete(chat, request, client);
  } else if (request.method == "GET" || request.method == "HEAD") {
    out = page(request);
  } else {
    out = refusal(of_status(404));
  }
  let_page_read(request, out);
  return out;
}

HttpReply ApiServer::Inside::page(const HttpRequest& request) const {
  const std::string& path = request.path;
  if (path == "/v1/models")
    return reply(Value::Table{{"object", "list"}, {"data", Value::Array{model_object()}}});
  if (path == "/v1/models/" + options_.model) return reply(model_object());
  if (path.starts_with("/v1/models/")) return refusal(unknown_model("of this path"));
  if (path == "/health") {
    const bool ready = backend_.ready();
    return reply(Value::Table{{"status", ready ? "ok" : "the worker has gone"}}, ready ? 200 : 503);
  }
  if (path == "/metrics") {
    return {.content_type = "text/plain; version=0.0.4", .body = metrics_.text(backend_.waiting())};
  }
  return refusal(of_status(404));
}

HttpReply ApiServer::Inside::complete(bool chat, const HttpRequest& request, HttpClient& client) {
  auto made = desk_.admit(chat, request.body);
  if (!made) return refusal(made.error());
  const std::shared_ptr<Admitted> admitted = std::move(*made);
  metrics_.running(1);
  // Until the answer is over, however it ends.
  const std::shared_ptr<ServeMetrics> running(&metrics_,
                                              [](ServeMetrics* metrics) { metrics->running(-1); });
  if (!admitted->stream) return answer_whole(*admitted, client);
  // What fails before its first piece has a status of its own.
  admitted->first = next_piece(*admitted, client);
  if (admitted->first->failed()) return refusal(error_of(*admitted->first));
  return {.content_type = "text/event-stream",
          .headers = {{"Cache-Control", "no-cache"}},
          .stream = [this, admitted, running](HttpClient& to) { stream(*admitted, to); }};
}

Piece ApiServer::Inside::next_piece(Admitted& admitted, const HttpClient& client) {
  const ServeLimits& limits = options_.limits;
  const SimDuration waits = admitted.facts.flex ? limits.flex_patience : SimDuration{};
  const SimTime until = admitted.arrived + waits + limits.answer_time;
  for (;;) {
    if (client.gone()) {
      metrics_.left();
      return {.end = StepKind::kFailed, .message = "The client has left."};
    }
    if (stopping_) return {.end = StepKind::kFailed, .message = "The server is stopping."};
    if (clock_.now() >= until)
      return {.end = StepKind::kFailed, .message = "The answer took too long."};
    const int64_t before = admitted.completion.tokens();
    Piece piece = admitted.completion.next(kGlance);
    if (admitted.completion.tokens() > before) metrics_.answer_token();
    if (piece.first) metrics_.first_token(clock_.now() - admitted.arrived);
    if (!piece.text.empty() || piece.end) return piece;
  }
}

HttpReply ApiServer::Inside::answer_whole(Admitted& admitted, const HttpClient& client) {
  std::string text;
  for (;;) {
    const Piece piece = next_piece(admitted, client);
    if (piece.failed()) return refusal(error_of(piece));
    text += piece.text;
    if (!piece.end) continue;
    return reply(whole_answer(admitted.facts, text, *piece.end,
                              {admitted.prompt_tokens, admitted.completion.tokens()}));
  }
}

void ApiServer::Inside::stream_end(const Admitted& admitted, const Piece& piece,
                                   HttpClient& client) {
  std::string last = piece.failed() ? event(error_object(error_of(piece)))
                                    : event(answer_chunk(admitted.facts, "", piece.end));
  if (admitted.stream_usage && !piece.failed()) {
    last +=
        event(usage_chunk(admitted.facts, {admitted.prompt_tokens, admitted.completion.tokens()}));
  }
  client.write(last + kDone);
}

void ApiServer::Inside::stream(Admitted& admitted, HttpClient& client) {
  for (;;) {
    const auto first = std::exchange(admitted.first, std::nullopt);
    const Piece piece = first ? *first : next_piece(admitted, client);
    admitted.completion.commit();
    const bool opens = admitted.facts.chat && !std::exchange(admitted.opened, true);
    if (opens && !client.write(event(opening_chunk(admitted.facts)))) return;
    if (!piece.text.empty() && !client.write(event(answer_chunk(admitted.facts, piece.text, {})))) {
      metrics_.left();
      return;
    }
    if (!piece.end) continue;
    stream_end(admitted, piece, client);
    return;
  }
}

// --- outside -------------------------------------------------------------------------------------

ApiServer::ApiServer(std::unique_ptr<Inside> inside) : inside_(std::move(inside)) {}
ApiServer::~ApiServer() = default;
const transport::Address& ApiServer::address() const { return inside_->address(); }

Result<std::unique_ptr<ApiServer>> ApiServer::open(ServeOptions options, Backend& backend,
                                                   text::TextEncoder& tokenizer,
                                                   const Clock& clock) {
  auto inside = std::make_unique<Inside>(std::move(options), backend, tokenizer, clock);
  TRY(inside->open());
  return std::unique_ptr<ApiServer>(new ApiServer(std::move(inside)));
}

}  // namespace tombolo::serve
