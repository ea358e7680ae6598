// Tables of comma-separated values: any bytes give rows or a message that names the file. Below a
// line of columns that we know, every row has a cell for each, which is a text, a number, a whole
// number or nothing, and rows that are written in quotes are read back equal.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/csv.h"

namespace {

using namespace tombolo;

template <typename T>
void check_blame(const Result<T>& cell) {
  CHECK(cell || cell.error().message.starts_with("input.csv"), "{}", cell.error().message);
}

// A cell is a text, perhaps a number, perhaps a whole one.
void look(const CsvRow& row, const std::string& column) {
  const auto text = row.text(column);
  const auto number = row.number(column);
  const auto count = row.count(column);
  check_blame(text);
  check_blame(number);
  check_blame(count);
  CHECK(text.has_value() == row.has(column), "{} is there, and is not", column);
  CHECK(text || (!number && !count), "a number in an empty cell");
  if (number) CHECK(std::isfinite(*number) && *number >= 0, "the number {}", *number);
  if (count) CHECK(number && *number == static_cast<double>(*count), "{} counts {}", *text, *count);
}

std::string quoted(std::string_view cell) {
  std::string out = "\"";
  for (const char c : cell) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string line(const std::vector<std::string>& cells) {
  std::string out;
  for (const std::string& cell : cells) out += (out.empty() ? "" : ",") + quoted(cell);
  return out + "\r\n";
}

// As many as the first line that is no comment has cells, unless it has commas in quotes.
std::vector<std::string> columns_for(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && text[at] == '#')
    at = std::min(text.find('\n', at), text.size() - 1) + 1;
  const std::string_view first = text.substr(at, text.find('\n', at) - at);
  const auto commas = std::min<int64_t>(std::count(first.begin(), first.end(), ','), 16);
  std::vector<std::string> columns;
  for (int64_t i = 0; i <= commas; ++i) columns.push_back(fmt::format("column{}", i));
  return columns;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_blame(parse_csv(text, "input.csv"));
  const std::vector<std::string> columns = columns_for(text);
  const auto rows = parse_csv(line(columns) + text, "input.csv");
  check_blame(rows);
  if (!rows) return 0;
  std::string written = line(columns);
  int last = 1;
  for (const CsvRow& row : *rows) {
    CHECK(row.line() > last, "line {} behind line {}", row.line(), last);
    last = row.line();
    std::vector<std::string> cells;
    for (const std::string& column : columns) {
      look(row, column);
      cells.push_back(row.has(column) ? *row.text(column) : "");
    }
    CHECK(!row.has("another") && !row.text("another"), "a cell without a column");
    written += line(cells);
  }
  const auto again = parse_csv(written, "again.csv");
  CHECK(again && again->size() == rows->size(), "other rows in {}", written);
  for (size_t i = 0; i < rows->size(); ++i) {
    for (const std::string& column : columns) {
      const auto before = (*rows)[i].text(column), after = (*again)[i].text(column);
      CHECK(before.has_value() == after.has_value(), "{} is gone", column);
      CHECK(!before || *before == *after, "{} became {}", *before, *after);
    }
  }
  return 0;
}
