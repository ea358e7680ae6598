#include "perform/transport/refusal_lines.h"

#include <fmt/format.h>

#include <utility>

namespace tombolo::transport {
namespace {

constexpr SimDuration kSayEvery{60'000'000'000};
constexpr size_t kKindsMax = 64;

std::string kind_of(const std::string& did, const std::string& reason) {
  std::string kind = did + ": ";
  for (const char c : reason) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) kind += c;
    if (digit && kind.back() != '#') kind += '#';
  }
  return kind;
}

}  // namespace

std::optional<std::string> RefusalLines::add(const std::string& did, const std::string& remote,
                                             const std::string& reason, SimTime now) {
  std::string name = kind_of(did, reason);
  if (kinds_.size() >= kKindsMax && !kinds_.contains(name)) name.clear();  // one for all others
  const auto [at, is_new] = kinds_.try_emplace(std::move(name), Kind{now});
  Kind& kind = at->second;
  if (!is_new && now - kind.said < kSayEvery) {
    ++kind.unsaid;
    return std::nullopt;
  }
  kind.said = now;
  const int64_t unsaid = std::exchange(kind.unsaid, 0);
  const std::string more =
      unsaid > 0 ? fmt::format(" ({} more like it since the last such line)", unsaid) : "";
  return fmt::format("{} from {}: {}{}", did, remote, reason, more);
}

}  // namespace tombolo::transport
