#include "ui/serve/serve_metrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace tombolo::serve {
namespace {

std::string heading(const char* name, const char* type, const char* help) {
  return fmt::format("# HELP tombolo_serve_{0} {2}\n# TYPE tombolo_serve_{0} {1}\n", name, type,
                     help);
}

std::string one_number(const char* name, const char* type, const char* help, int64_t value) {
  return heading(name, type, help) + fmt::format("tombolo_serve_{} {}\n", name, value);
}

}  // namespace

void ServeMetrics::request(const std::string& path, int status) {
  const std::lock_guard lock(mutex_);
  ++requests_[{path, status}];
}

void ServeMetrics::prompt_tokens(int64_t count) {
  const std::lock_guard lock(mutex_);
  prompt_tokens_ += count;
}

void ServeMetrics::answer_token() {
  const std::lock_guard lock(mutex_);
  ++answer_tokens_;
}

void ServeMetrics::first_token(SimDuration since_arrival) {
  const std::lock_guard lock(mutex_);
  const double took = seconds(since_arrival).value;
  ++first_tokens_[static_cast<size_t>(std::ranges::lower_bound(kEnds, took) - kEnds.begin())];
  first_token_sum_s_ += took;
}

void ServeMetrics::left() {
  const std::lock_guard lock(mutex_);
  ++left_;
}

void ServeMetrics::running(int64_t change) {
  const std::lock_guard lock(mutex_);
  running_ += change;
}

std::string ServeMetrics::text(int64_t waiting) const {
  const std::lock_guard lock(mutex_);
  std::string out = heading("requests_total", "counter", "Requests answered, by path and status.");
  for (const auto& [what, count] : requests_) {
    out += fmt::format("tombolo_serve_requests_total{{path=\"{}\",status=\"{}\"}} {}\n", what.first,
                       what.second, count);
  }
  out +=
      one_number("prompt_tokens_total", "counter", "Tokens of admitted prompts.", prompt_tokens_);
  out += one_number("answer_tokens_total", "counter", "Tokens of answers.", answer_tokens_);
  out += one_number("clients_left_total", "counter", "Clients that left before their answer ended.",
                    left_);
  out += one_number("requests_running", "gauge", "Prompts being answered.", running_ - waiting);
  out += one_number("requests_waiting", "gauge", "Prompts that may wait, and do.", waiting);
  out +=
      heading("first_token_seconds", "histogram", "From a request's arrival to its first token.");
  int64_t sum = 0;
  for (size_t i = 0; i < kEnds.size(); ++i) {
    sum += first_tokens_[i];
    out += fmt::format("tombolo_serve_first_token_seconds_bucket{{le=\"{}\"}} {}\n", kEnds[i], sum);
  }
  sum += first_tokens_.back();
  out += fmt::format(
      "tombolo_serve_first_token_seconds_bucket{{le=\"+Inf\"}} {0}\n"
      "tombolo_serve_first_token_seconds_sum {1}\ntombolo_serve_first_token_seconds_count {0}\n",
      sum, first_token_sum_s_);
  return out;
}

}  // namespace tombolo::serve
