#include "base/fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/json.h"

namespace tombolo {
namespace {

// Levenshtein distance.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::vector<std::string_view> words_of(std::string_view name) {
  std::vector<std::string_view> words;
  while (!name.empty()) {
    const size_t end = std::min(name.find('_'), name.size());
    if (end > 0) words.push_back(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return words;
}

bool says_nothing(std::string_view word) {
  return word == "num" || word == "n" || word == "number" || word == "of" || word == "total";
}

// Letters of the words that two names share at either end: global_batch and global_batch_size,
// gpus_per_node and devices_per_node. At least two words, or all of one name; at the end of a longer name
// only behind words that say nothing, for kv_heads are no heads.
size_t shared_letters(std::string_view a, std::string_view b) {
  std::vector<std::string_view> x = words_of(a), y = words_of(b);
  if (x.size() > y.size()) std::swap(x, y);
  const auto letters = [&](auto x_begin, auto y_begin, bool may_be_one) {
    size_t words = 0, sum = 0;
    for (; words < x.size() && *x_begin == *y_begin; ++words, ++x_begin, ++y_begin)
      sum += x_begin->size();
    return words >= 2 || (words == x.size() && may_be_one) ? sum : 0;
  };
  const bool plain =
      std::all_of(y.begin(), y.end() - static_cast<std::ptrdiff_t>(x.size()), says_nothing);
  return std::max(letters(x.begin(), y.begin(), true), letters(x.rbegin(), y.rbegin(), plain));
}

// As other programs write a key: num_layers, global_batch_size.
std::string_view without_affixes(std::string_view name) {
  for (const std::string_view affix : {"num_", "n_"}) {
    if (name.starts_with(affix)) name.remove_prefix(affix.size());
  }
  for (const std::string_view affix : {"_size", "_count"}) {
    if (name.ends_with(affix)) name.remove_suffix(affix.size());
  }
  return name;
}

constexpr size_t kNameMax = 64;  // a longer one is hostile input: not worth the quadratic time

// A quarter of the letters may be wrong, at least two, but not half of them.
std::string nearest_by_letters(std::string_view misspelt, const std::vector<std::string>& known) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, misspelt.size() / 4) + 1;
  if (misspelt.size() > kNameMax) return best;
  for (const std::string& name : known) {
    const size_t distance = edit_distance(misspelt, name);
    if (distance > 1 && 2 * distance >= misspelt.size()) continue;
    if (distance < best_distance) {
      best = name;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace

std::string nearest_name(std::string_view misspelt, const std::vector<std::string>& known) {
  std::string best = nearest_by_letters(misspelt, known);
  if (!best.empty() || misspelt.size() > kNameMax) return best;
  size_t most = 3;  // letters in common that say nothing
  for (const std::string& name : known) {
    const size_t letters = shared_letters(misspelt, name);
    if (letters <= most) continue;
    best = name;
    most = letters;
  }
  return best;
}

std::string one_of(std::string_view misspelt, const std::vector<std::string>& known) {
  const auto lower = [](std::string_view text) {
    std::string out(text);
    for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return out;
  };
  const auto letters = [&](std::string_view text) {
    std::string out = lower(text);
    std::sort(out.begin(), out.end());
    return out;
  };
  const std::string all = fmt::format("{}", fmt::join(known, ", "));
  if (misspelt.size() > kNameMax) return "one of " + all;
  const std::string* nearest = nullptr;
  size_t least = std::max<size_t>(1, misspelt.size() / 4) + 1;
  for (const std::string& name : known) {
    const size_t edits = edit_distance(lower(misspelt), lower(name));
    const size_t distance = letters(misspelt) == letters(name) ? std::min<size_t>(edits, 1) : edits;
    if (distance >= least || distance >= misspelt.size()) continue;
    nearest = &name;
    least = distance;
  }
  return nearest ? fmt::format("\"{}\"; all: {}", *nearest, all) : "one of " + all;
}

FieldReader::FieldReader(const Value& table, std::string file, std::string path,
                         std::optional<Error>* error)
    : table_(table), file_(std::move(file)), path_(std::move(path)), error_(error) {
  CHECK(table.get<Value::Table>(), "the fields of {} in {}", table.kind(), file_);
  CHECK(error, "{}: nowhere to keep what is wrong with {}", file_, path_.empty() ? "it" : path_);
}

std::string FieldReader::path_to(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

const Value* FieldReader::take(std::string_view key) {
  known_.emplace_back(key);
  return ok() ? table_.find(key) : nullptr;
}

void FieldReader::missing(std::string_view key) {
  if (!ok()) return;
  // Perhaps it is there, but misspelt. Which other keys are known is not known yet.
  std::vector<std::string> present;
  std::string near;
  for (const auto& [name, value] : *table_.get<Value::Table>()) {
    present.push_back(name);
    if (name != key && without_affixes(name) == key) near = name;
  }
  if (near.empty()) near = nearest_by_letters(key, present);
  const Value* const misspelt = near.empty() ? nullptr : table_.find(near);
  const int line = misspelt ? misspelt->line : table_.line;
  const std::string at = line ? fmt::format("{}:{}", file_, line) : file_;
  *error_ = Error{ErrorCode::kUnusable,
                  fmt::format("{}: {} is missing", at, path_to(key)),
                  {},
                  misspelt ? fmt::format("\"{}\" instead of \"{}\"", key, near) : "",
                  {.file = file_, .line = line, .key = path_to(key)}};
}

void FieldReader::wrong(const Value& value, std::string_view key, std::string why,
                        std::string hint) {
  if (!ok()) return;
  const std::string at = value.line ? fmt::format("{}:{}", file_, value.line) : file_;
  const std::string whole = to_json(value, -1);
  std::string shown = whole;
  if (shown.size() > 80) shown = shown.substr(0, 77) + "...";
  *error_ = Error{ErrorCode::kUnusable,
                  fmt::format("{}: {} = {}: {}", at, path_to(key), shown, why),
                  {},
                  std::move(hint),
                  {.file = file_, .line = value.line, .key = path_to(key), .value = whole}};
}

void FieldReader::wrong_kind(const Value& value, std::string_view key, const char* wanted) {
  wrong(value, key, fmt::format("wanted {}, found {}", wanted, value.kind()));
}

void FieldReader::check(bool condition, std::string_view key, std::string_view why,
                        std::string hint) {
  if (condition || !ok()) return;
  if (const Value* value = table_.find(key)) return wrong(*value, key, std::string(why), hint);
  const std::string at = table_.line ? fmt::format("{}:{}", file_, table_.line) : file_;
  *error_ = Error{ErrorCode::kUnusable,
                  fmt::format("{}: {}: {}", at, path_to(key), why),
                  {},
                  std::move(hint),
                  {.file = file_, .line = table_.line, .key = path_to(key)}};
}

void FieldReader::refuse(std::string_view key, std::string_view why, std::string hint) {
  if (const Value* value = take(key)) wrong(*value, key, std::string(why), std::move(hint));
}

void FieldReader::finish() {
  if (!ok()) return;
  for (const auto& [key, value] : *table_.get<Value::Table>()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    const std::string near = nearest_name(key, known_);
    std::string all;
    for (auto name = known_.begin(); name != known_.end(); ++name) {
      if (std::find(known_.begin(), name, *name) != name) continue;  // some are asked for twice
      all += (all.empty() ? "" : ", ") + *name;
    }
    return wrong(value, key, "unknown key",
                 near.empty() ? "one of " + all : fmt::format("\"{}\"", near));
  }
}

void FieldReader::read(const Value& value, std::string_view key, bool& out) {
  if (const bool* flag = value.get<bool>()) {
    out = *flag;
  } else {
    wrong_kind(value, key, "true or false");
  }
}

void FieldReader::read(const Value& value, std::string_view key, double& out) {
  if (const double* number = value.get<double>()) {
    if (!std::isfinite(*number)) return wrong(value, key, "wanted a finite number");
    out = *number;
  } else if (const int64_t* integer = value.get<int64_t>()) {
    out = static_cast<double>(*integer);
  } else {
    wrong_kind(value, key, "a number");
  }
}

void FieldReader::read(const Value& value, std::string_view key, std::string& out) {
  if (const std::string* text = value.get<std::string>()) {
    out = *text;
  } else {
    wrong_kind(value, key, "a text");
  }
}

void FieldReader::read_integer(const Value& value, std::string_view key, int64_t min, int64_t max,
                               int64_t& out) {
  const int64_t* integer = value.get<int64_t>();
  if (!integer) return wrong_kind(value, key, "a whole number");
  if (*integer < min || *integer > max) {
    return wrong(value, key, fmt::format("must lie between {} and {}", min, max));
  }
  out = *integer;
}

void FieldReader::read_quantity(const Value& value, std::string_view key, const UnitTable& table,
                                double& out) {
  const std::string* text = value.get<std::string>();
  if (!text) {
    return wrong(value, key, fmt::format("wanted a text with a unit, found {}", value.kind()),
                 fmt::format("\"{}\"", table.example));
  }
  Result<double> parsed = detail::parse_quantity(*text, table);
  if (!parsed) return wrong(value, key, parsed.error().message, parsed.error().hint);
  if (*parsed < 0) return wrong(value, key, "must not be negative");
  // Laws count time in 64 bits of nanoseconds, which is 290 years, and add some of them.
  constexpr double kSecondsMax = 1e9;
  if (&table == &unit_table<Seconds>() && *parsed > kSecondsMax) {
    return wrong(value, key, "longer than 31 years", fmt::format("\"{}\"", table.example));
  }
  out = *parsed;
}

}  // namespace tombolo
