#include "predict/cost/law.h"

#include <vector>

namespace tombolo::cost {

Result<Law> find_law(std::string_view name) {
  if (name.empty()) return Law::kTombolo;
  if (const auto law = from_name<Law>(name)) return *law;
  std::vector<std::string_view> known;
  for (const auto& [law, known_name] : enum_names(Law{})) known.push_back(known_name);
  return unusable(fmt::format("--law {}: there is no such law", name),
                  fmt::format("--law {}", fmt::join(known, ", --law ")));
}

}  // namespace tombolo::cost
