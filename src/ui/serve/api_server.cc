#include "ui/serve/api_server.h"

#include <httplib.h>
#include <sys/socket.h>

#include <atomic>
#include <set>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/parallel.h"
#include "perform/transport/http_server.h"
#include "ui/serve/connection.h"
#include "ui/serve/request_desk.h"

namespace tombolo::serve {
namespace {

constexpr std::chrono::milliseconds kRequestTime{10'000};
constexpr std::chrono::milliseconds kRequestTimeWhereOthersWait{1'000};
constexpr std::chrono::milliseconds kWriteTime{10'000};
constexpr size_t kBesideTheBody = 16 * 1024;
constexpr size_t kMoreThreads = 16;  // than prompts at once: for who is refused, and for metrics
constexpr int kWaitingMax = 64;
constexpr SimDuration kGlance{100'000'000};  // how often somebody looks whether the client is there

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
  return piece.lost ? lost(*piece.failed) : server_error(*piece.failed);
}

}  // namespace

namespace http {  // not unnamed: ApiServer::Inside has members of these

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using TlsContext = std::unique_ptr<SSL_CTX, FreeContext>;

class LimitedServer : public transport::HttpServer {
 public:
  size_t request_bytes = 0;
  TlsContext tls;

 private:
  bool serve(socket_t socket, int waiting) override {
    if (waiting > kWaitingMax) return false;
    Connection connection(socket, tls.get(),
                          {.request_bytes = request_bytes,
                           .request_time = waiting > 0 ? kRequestTimeWhereOthersWait : kRequestTime,
                           .write_time = kWriteTime});
    const bool served = connection.open() && answer(connection);
    connection.close_politely();
    return served;
  }
};

}  // namespace http

class ApiServer::Inside {
 public:
  Inside(ServeOptions options, Backend& backend, text::TextEncoder& tokenizer, const Clock& clock)
      : options_(std::move(options)),
        backend_(backend),
        clock_(clock),
        desk_(options_, backend, tokenizer, clock, metrics_) {}
  ~Inside() {
    stopping_ = true;
    http_.stop();
    if (thread_.joinable()) thread_.join();
  }

  Status open();
  const transport::Address& address() const { return options_.listen; }

 private:
  using Request = httplib::Request;
  using Response = httplib::Response;

  Status check_who_can_reach() const;
  Status read_certificate();
  Status bind();
  void set_limits();
  void route();

  bool let_page_ask(const Request& request, Response& response) const;
  httplib::Server::HandlerResponse before_routing(const Request& request, Response& response);
  void complete(bool chat, const Request& request, Response& response);
  void answer_whole(Admitted& admitted, Response& response);
  bool stream_piece(Admitted& admitted, httplib::DataSink& sink);
  bool stream_end(Admitted& admitted, const Piece& piece, httplib::DataSink& sink);
  // The next piece; ended by time, by who leaves, or because the server stops.
  Piece next_piece(Admitted& admitted);
  Value model_object() const;

  static void send(Response& response, const Value& value, int status = 200);
  static void refuse(Response& response, const ApiError& error);

  ServeOptions options_;
  Backend& backend_;
  const Clock& clock_;
  ServeMetrics metrics_;
  RequestDesk desk_;
  std::atomic<bool> stopping_{false};
  http::LimitedServer http_;
  std::thread thread_;
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
    return unusable(fmt::format("{} can be reached by other hosts, and anybody could ask",
                                options_.listen.text()),
                    "--api-keys FILE, or --listen 127.0.0.1:8000");
  }
  return {};
}

Status ApiServer::Inside::read_certificate() {
  if (options_.certificate.empty()) return {};
  http::TlsContext context(SSL_CTX_new(TLS_server_method()));
  CHECK(context, "OpenSSL gives no context");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (SSL_CTX_use_certificate_chain_file(context.get(), options_.certificate.c_str()) != 1) {
    ERR_clear_error();
    return unusable(fmt::format("{}: no certificate in PEM that can be read", options_.certificate),
                    "the file with the certificate first, then those that vouch for it");
  }
  const bool has_key = SSL_CTX_use_PrivateKey_file(context.get(), options_.private_key.c_str(),
                                                   SSL_FILETYPE_PEM) == 1;
  if (!has_key || SSL_CTX_check_private_key(context.get()) != 1) {
    ERR_clear_error();
    return unusable(fmt::format("{}: no private key in PEM that belongs to {}",
                                options_.private_key, options_.certificate),
                    "both files of one and the same certificate");
  }
  http_.tls = std::move(context);
  return {};
}

void ApiServer::Inside::set_limits() {
  http_.request_bytes = static_cast<size_t>(options_.limits.body_bytes) + kBesideTheBody;
  http_.set_payload_max_length(static_cast<size_t>(options_.limits.body_bytes));
  const size_t threads =
      static_cast<size_t>(options_.limits.requests + options_.limits.flex_requests) + kMoreThreads;
  http_.set_threads(threads);
  // The library would share the port with another process that asks for the same. Pieces of a
  // stream go out as they come.
  http_.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  http_.set_tcp_nodelay(true);
}

Status ApiServer::Inside::bind() {
  transport::Address& here = options_.listen;
  if (here.port == 0) {
    const int port = http_.bind_to_any_port(here.host);
    if (port <= 0)
      return unusable(fmt::format("cannot listen on {}", here.text()), "an address of this host");
    here.port = static_cast<uint16_t>(port);
    return {};
  }
  if (http_.bind_to_port(here.host, here.port)) return {};
  return unusable(fmt::format("cannot listen on {}", here.text()),
                  "an address of this host with a free port; port 0: any");
}

Status ApiServer::Inside::open() {
  CHECK(options_.unix_time && options_.positions > 0 && !options_.model.empty(),
        "a server without a clock or a model");
  TRY(check_who_can_reach());
  TRY(read_certificate());
  set_limits();
  route();
  TRY(bind());
  thread_ = start_without_signals([this] { http_.listen_after_bind(); });
  while (!http_.is_running()) std::this_thread::yield();  // else stop() could come before the start
  return {};
}

// --- requests ------------------------------------------------------------------------------------

void ApiServer::Inside::send(Response& response, const Value& value, int status) {
  response.status = status;
  response.set_content(to_json(value, -1), "application/json");
}

void ApiServer::Inside::refuse(Response& response, const ApiError& error) {
  if (error.retry_after_s > 0)
    response.set_header("Retry-After", fmt::format("{}", error.retry_after_s));
  if (error.status == 401) response.set_header("WWW-Authenticate", "Bearer");
  send(response, error_object(error), error.status);
}

Value ApiServer::Inside::model_object() const {
  return Value::Table{{"id", options_.model},
                      {"object", "model"},
                      {"created", 0},
                      {"owned_by", "tombolo"},
                      {"max_model_len", options_.positions}};
}

// Whether the page of a browser, if it is one that asks, may read the answer.
bool ApiServer::Inside::let_page_ask(const Request& request, Response& response) const {
  const std::string origin = request.get_header_value("Origin");
  if (options_.keys.empty() && !is_of_this_machine(origin)) return false;
  response.set_header("Access-Control-Allow-Origin", origin);
  response.set_header("Vary", "Origin");
  return true;
}

// Before a body is read.
httplib::Server::HandlerResponse ApiServer::Inside::before_routing(const Request& request,
                                                                   Response& response) {
  using httplib::Server;
  // Answers are whole: overlapping ranges would ask for one thousands of times. The request is the
  // library's own, and no constant.
  const_cast<Request&>(request).ranges.clear();
  const bool is_page = request.has_header("Origin");
  const bool page_may = is_page && let_page_ask(request, response);
  if (request.method == "OPTIONS" && request.has_header("Access-Control-Request-Method")) {
    if (!page_may) {
      refuse(response, of_status(403));
      return Server::HandlerResponse::Handled;
    }
    response.set_header("Access-Control-Allow-Methods", "GET, POST");
    response.set_header("Access-Control-Allow-Headers",
                        request.get_header_value("Access-Control-Request-Headers"));
    response.set_header("Access-Control-Max-Age", "600");
    response.status = 204;
    return Server::HandlerResponse::Handled;
  }
  if (request.path == "/health") return Server::HandlerResponse::Unhandled;
  if (!options_.keys.allow(request.get_header_value("Authorization"))) {
    refuse(response, invalid_key());
    return Server::HandlerResponse::Handled;
  }
  // Compressed bodies would have no bound.
  const std::string coding = request.get_header_value("Content-Encoding");
  if ((!coding.empty() && coding != "identity") || request.is_multipart_form_data()) {
    refuse(response, of_status(415));
    return Server::HandlerResponse::Handled;
  }
  return Server::HandlerResponse::Unhandled;
}

void ApiServer::Inside::route() {
  http_.set_pre_routing_handler([this](const Request& request, Response& response) {
    return before_routing(request, response);
  });
  http_.Post("/v1/completions", [this](const Request& request, Response& response) {
    complete(false, request, response);
  });
  http_.Post("/v1/chat/completions", [this](const Request& request, Response& response) {
    complete(true, request, response);
  });
  http_.Get("/v1/models", [this](const Request&, Response& response) {
    send(response, Value::Table{{"object", "list"}, {"data", Value::Array{model_object()}}});
  });
  http_.Get("/v1/models/(.+)", [this](const Request& request, Response& response) {
    if (request.path == "/v1/models/" + options_.model) return send(response, model_object());
    refuse(response, unknown_model("of this path"));
  });
  http_.Get("/health", [this](const Request&, Response& response) {
    const bool ready = backend_.ready();
    send(response, Value::Table{{"status", ready ? "ok" : "the worker has gone"}},
         ready ? 200 : 503);
  });
  http_.Get("/metrics", [this](const Request&, Response& response) {
    response.set_content(metrics_.text(backend_.waiting()), "text/plain; version=0.0.4");
  });
  http_.set_error_handler([](const Request&, Response& response) {
    if (response.body.empty()) refuse(response, of_status(response.status));
  });
  http_.set_exception_handler([](const Request&, Response& response, std::exception_ptr) {
    refuse(response, server_error("The server failed."));
  });
  http_.set_logger([this](const Request& request, const Response& response) {
    static const std::set<std::string> kPaths = {"/v1/completions", "/v1/chat/completions",
                                                 "/v1/models", "/health", "/metrics"};
    metrics_.request(kPaths.contains(request.path) ? request.path : "other", response.status);
  });
}

void ApiServer::Inside::complete(bool chat, const Request& request, Response& response) {
  auto made = desk_.admit(chat, request.body);
  if (!made) return refuse(response, made.error());
  const std::shared_ptr<Admitted> admitted = std::move(*made);
  metrics_.running(1);
  if (!admitted->stream) {
    answer_whole(*admitted, response);
    metrics_.running(-1);
    return;
  }
  // What fails before its first piece has a status of its own.
  admitted->first = next_piece(*admitted);
  if (admitted->first->failed) {
    metrics_.running(-1);
    return refuse(response, error_of(*admitted->first));
  }
  response.set_header("Cache-Control", "no-cache");
  response.set_chunked_content_provider(
      "text/event-stream",
      [this, admitted](size_t, httplib::DataSink& sink) { return stream_piece(*admitted, sink); },
      [this](bool) { metrics_.running(-1); });
}

Piece ApiServer::Inside::next_piece(Admitted& admitted) {
  const ServeLimits& limits = options_.limits;
  const SimDuration waits = admitted.facts.flex ? limits.flex_patience : SimDuration{};
  const SimTime until = admitted.arrived + waits + limits.answer_time;
  const Connection* client = Connection::of_this_thread();
  CHECK(client, "a request without a connection");
  for (;;) {
    if (client->gone()) {
      metrics_.left();
      return {.failed = "The client has left."};
    }
    if (stopping_) return {.failed = "The server is stopping."};
    if (clock_.now() >= until) return {.failed = "The answer took too long."};
    const int64_t before = admitted.completion.tokens();
    Piece piece = admitted.completion.next(kGlance);
    if (admitted.completion.tokens() > before) metrics_.answer_token();
    if (piece.first) metrics_.first_token(clock_.now() - admitted.arrived);
    if (!piece.text.empty() || piece.end || piece.failed) return piece;
  }
}

void ApiServer::Inside::answer_whole(Admitted& admitted, Response& response) {
  std::string text;
  for (;;) {
    const Piece piece = next_piece(admitted);
    if (piece.failed) return refuse(response, error_of(piece));
    text += piece.text;
    if (!piece.end) continue;
    return send(response, whole_answer(admitted.facts, text, *piece.end,
                                       {admitted.prompt_tokens, admitted.completion.tokens()}));
  }
}

bool ApiServer::Inside::stream_end(Admitted& admitted, const Piece& piece,
                                   httplib::DataSink& sink) {
  std::string last = piece.failed ? event(error_object(error_of(piece)))
                                  : event(answer_chunk(admitted.facts, "", piece.end));
  if (admitted.stream_usage && !piece.failed) {
    last +=
        event(usage_chunk(admitted.facts, {admitted.prompt_tokens, admitted.completion.tokens()}));
  }
  last += kDone;
  const bool written = sink.write(last.data(), last.size());
  sink.done();
  return written;
}

// False ends the connection: the client has left.
bool ApiServer::Inside::stream_piece(Admitted& admitted, httplib::DataSink& sink) {
  const auto write = [&](const std::string& text) { return sink.write(text.data(), text.size()); };
  const auto first = std::exchange(admitted.first, std::nullopt);
  const Piece piece = first ? *first : next_piece(admitted);
  admitted.completion.commit();
  const bool opens = admitted.facts.chat && !std::exchange(admitted.opened, true);
  if (opens && !write(event(opening_chunk(admitted.facts)))) return false;
  if (!piece.text.empty() && !write(event(answer_chunk(admitted.facts, piece.text, {})))) {
    metrics_.left();
    return false;
  }
  return piece.end || piece.failed ? stream_end(admitted, piece, sink) : true;
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
