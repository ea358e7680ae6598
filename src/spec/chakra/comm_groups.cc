#include "spec/chakra/comm_groups.h"

#include <algorithm>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"

namespace tombolo::chakra {
namespace {

constexpr int64_t kFileLimit = int64_t{1} << 30;

Result<std::vector<int32_t>> ranks_of(const Value& value, const std::string& place) {
  const auto* array = value.get<Value::Array>();
  if (!array)
    return unusable(fmt::format("{}: wanted a list of ranks, found {}", place, value.kind()));
  std::vector<int32_t> ranks;
  ranks.reserve(array->size());
  for (const Value& item : *array) {
    const auto* rank = item.get<int64_t>();
    if (!rank || *rank < 0 || *rank > INT32_MAX) {
      return unusable(fmt::format("{}: element {} is no rank", place, ranks.size()));
    }
    ranks.push_back(static_cast<int32_t>(*rank));
  }
  if (ranks.empty()) return unusable(fmt::format("{}: has no ranks", place));
  std::vector<int32_t> sorted = ranks;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    return unusable(fmt::format("{}: rank {} stands twice", place, *twice));
  return ranks;
}

}  // namespace

Result<CommGroups> parse_comm_groups(std::string_view text, const std::string& name) {
  const Value value = TRY(parse_json(text, name));
  const auto* table = value.get<Value::Table>();
  if (!table) {
    return unusable(fmt::format("{}: wanted groups, found {}", name, value.kind()),
                    "{\"0\": [0, 1], \"1\": [2, 3]}");
  }
  CommGroups groups;
  for (const auto& [group, ranks] : *table) {
    groups[group] = TRY(ranks_of(ranks, fmt::format("{}: group \"{}\"", name, group)));
  }
  return groups;
}

Result<CommGroups> read_comm_groups(const std::string& path) {
  return parse_comm_groups(TRY(read_file(path, kFileLimit)), path);
}

std::string to_json_text(const CommGroups& groups) {
  Value::Table table;
  for (const auto& [name, ranks] : groups) {
    CHECK(!ranks.empty(), "communicator group {} has no ranks", name);
    Value::Array array;
    for (const int32_t rank : ranks) {
      CHECK(rank >= 0, "communicator group {} has rank {}", name, rank);
      array.emplace_back(int64_t{rank});
    }
    table.emplace_back(name, std::move(array));
  }
  return to_json(Value(std::move(table)), -1) + "\n";
}

namespace {

// The text is a list as Python prints it, around a text of JSON: ['[{"pg_name": "0", "ranks": [0,
// 1]}]']. A group without ranks is that of all ranks.
Result<CommGroups> declared_groups(const graph::Node& node, const std::string& name) {
  CommGroups groups;
  for (const std::string& text : node.details->inputs) {
    const size_t begin = text.find("[{");
    const size_t end = text.rfind("}]");
    if (begin == std::string::npos || end == std::string::npos || end < begin) continue;
    const std::string place = fmt::format("{}: node {} (process groups)", name, node.id);
    const Value value =
        TRY(parse_json(std::string_view(text).substr(begin, end + 2 - begin), place, 0));
    const auto* list = value.get<Value::Array>();
    for (const Value& group : *list) {
      const Value* ranks = group.find("ranks");
      const Value* pg_name = group.find("pg_name");
      const auto* label = pg_name ? pg_name->get<std::string>() : nullptr;
      if (!label) return unusable(fmt::format("{}: a group without pg_name", place));
      const auto* array = ranks ? ranks->get<Value::Array>() : nullptr;
      if (array && array->empty()) continue;
      if (!ranks) return unusable(fmt::format("{}: group \"{}\" without ranks", place, *label));
      groups[*label] = TRY(ranks_of(*ranks, fmt::format("{}: group \"{}\"", place, *label)));
    }
  }
  return groups;
}

}  // namespace

Result<CommGroups> process_groups_of(const graph::Node& node, const std::string& name) {
  if (node.type != graph::NodeType::kMetadata) return CommGroups();
  Result<CommGroups> groups = declared_groups(node, name);
  // ASTRA-sim looks for groups in all METADATA nodes; those of other names may say something else.
  if (!groups && node.name.find("process_group:init") == std::string::npos) return CommGroups();
  return groups;
}

}  // namespace tombolo::chakra
