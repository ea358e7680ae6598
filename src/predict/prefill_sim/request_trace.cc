#include "predict/prefill_sim/request_trace.h"

#include <charconv>
#include <chrono>
#include <optional>

#include "base/csv.h"
#include "base/file.h"

namespace tombolo::prefill_sim {
namespace {

constexpr int64_t kTokensMax = 100'000'000;
constexpr int64_t kNanoseconds = 1'000'000'000;

// Exactly `count` digits from the front of the text.
std::optional<int> take_digits(std::string_view& text, size_t count) {
  int number = 0;
  if (text.size() < count) return {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + count, number);
  if (error != std::errc() || end != text.data() + count || text[0] == '-') return {};
  text.remove_prefix(count);
  return number;
}

bool take_sign(std::string_view& text, std::string_view one_of) {
  if (text.empty() || one_of.find(text[0]) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

// Up to nine digits behind the point, as nanoseconds.
std::optional<int64_t> take_fraction(std::string_view& text) {
  if (!take_sign(text, ".")) return 0;
  int64_t ns = 0, unit = kNanoseconds;
  while (!text.empty() && text[0] >= '0' && text[0] <= '9' && unit > 1) {
    unit /= 10;
    ns += unit * (text[0] - '0');
    text.remove_prefix(1);
  }
  if (unit == kNanoseconds) return {};
  return ns;
}

// Nanoseconds since 1970, or nothing.
std::optional<int64_t> parse_timestamp(std::string_view text) {
  const auto year = take_digits(text, 4);
  if (!year || !take_sign(text, "-")) return {};
  const auto month = take_digits(text, 2);
  if (!month || !take_sign(text, "-")) return {};
  const auto day = take_digits(text, 2);
  if (!day || !take_sign(text, " T")) return {};
  const auto hour = take_digits(text, 2);
  if (!hour || !take_sign(text, ":")) return {};
  const auto minute = take_digits(text, 2);
  if (!minute || !take_sign(text, ":")) return {};
  const auto second = take_digits(text, 2);
  const auto fraction = take_fraction(text);
  if (!second || !fraction || !(text.empty() || text == "Z" || text == "+00:00")) return {};
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || *year < 1970 || *year > 2200) return {};
  if (*hour > 23 || *minute > 59 || *second > 59) return {};
  const int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return (((days * 24 + *hour) * 60 + *minute) * 60 + *second) * kNanoseconds + *fraction;
}

Result<int64_t> tokens_of(const CsvRow& row, std::string_view column, int64_t least) {
  const int64_t tokens = TRY(row.count(column));
  if (tokens >= least && tokens <= kTokensMax) return tokens;
  return fail(row.complaint(column, fmt::format("must lie between {} and {}", least, kTokensMax)));
}

}  // namespace

Result<std::vector<TracedRequest>> parse_request_trace(std::string_view csv,
                                                       const std::string& file) {
  const std::string_view header = csv.substr(0, csv.find('\n'));
  for (const char* column : {"TIMESTAMP", "ContextTokens", "GeneratedTokens"}) {
    if (header.find(column) != std::string_view::npos) continue;
    return unusable(fmt::format("{}:1: not a trace of requests: no column \"{}\"", file, column),
                    "TIMESTAMP,ContextTokens,GeneratedTokens in the first line");
  }
  std::vector<TracedRequest> requests;
  int64_t first = 0;
  const std::vector<CsvRow> rows = TRY(parse_csv(csv, file));
  for (const CsvRow& row : rows) {
    const std::string text = TRY(row.text("TIMESTAMP"));
    const std::optional<int64_t> at = parse_timestamp(text);
    if (!at) {
      return fail(
          row.complaint("TIMESTAMP", "is not a date and a time", "2023-11-16 18:17:03.9799600"));
    }
    if (requests.empty()) first = *at;
    TracedRequest request{{*at - first}};
    if (!requests.empty() && request.arrival < requests.back().arrival) {
      return fail(row.complaint("TIMESTAMP", "is before the one above", "rows sorted by time"));
    }
    request.prompt_tokens = TRY(tokens_of(row, "ContextTokens", 1));
    request.output_tokens = TRY(tokens_of(row, "GeneratedTokens", 0));
    requests.push_back(request);
  }
  if (requests.empty()) {
    return unusable(file + ": no request", "TIMESTAMP,ContextTokens,GeneratedTokens and a row");
  }
  return requests;
}

Result<std::vector<TracedRequest>> read_request_trace(const std::string& path) {
  return parse_request_trace(TRY(read_file(path, int64_t{1} << 30)), path);
}

}  // namespace tombolo::prefill_sim
