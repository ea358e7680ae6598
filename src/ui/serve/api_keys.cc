#include "ui/serve/api_keys.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/file.h"

namespace tombolo::serve {
namespace {

constexpr size_t kKeyMin = 16;
constexpr int64_t kFileMax = int64_t{1} << 20;

// Looks at every character of `given`, wherever they differ.
bool equal_in_constant_time(std::string_view given, std::string_view key) {
  volatile unsigned differs = given.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    const auto a = static_cast<unsigned char>(given[i]);
    const auto b = static_cast<unsigned char>(key[i % key.size()]);
    differs = differs | static_cast<unsigned>(a ^ b);
  }
  return differs == 0;
}

}  // namespace

Result<ApiKeys> ApiKeys::parse(std::string_view text, const std::string& name) {
  ApiKeys out;
  for (int line = 1; !text.empty(); ++line) {
    const size_t end = text.find('\n');
    std::string_view key = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (key.ends_with('\r')) key.remove_suffix(1);
    if (key.empty() || key.starts_with('#')) continue;
    const bool printable = std::ranges::all_of(key, [](char c) { return c > ' ' && c < 0x7f; });
    if (!printable || key.size() < kKeyMin) {
      return unusable(fmt::format("{}:{}: a key has {} characters or more, letters, digits and "
                                  "signs without spaces",
                                  name, line, kKeyMin),
                      "openssl rand -hex 24");
    }
    out.keys_.emplace_back(key);
  }
  if (out.keys_.empty()) return unusable(name + ": there is no key", "openssl rand -hex 24");
  return out;
}

Result<ApiKeys> ApiKeys::read(const std::string& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) == 0 && (facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return unusable(fmt::format("{}: others than its owner may read the keys", path),
                    fmt::format("chmod 600 {}", path));
  }
  return parse(TRY(read_file(path, kFileMax)), path);
}

bool ApiKeys::allow(std::string_view authorization) const {
  if (empty()) return true;
  constexpr std::string_view kBearer = "Bearer ";
  if (!authorization.starts_with(kBearer)) return false;
  authorization.remove_prefix(kBearer.size());
  bool known = false;
  for (const std::string& key : keys_) known |= equal_in_constant_time(authorization, key);
  return known;
}

}  // namespace tombolo::serve
