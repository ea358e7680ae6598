#include "base/text_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tombolo {
namespace {

// Characters of UTF-8: bytes that continue one take no place of their own.
size_t width_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

void append_cell(std::string& line, const std::string& cell, size_t width, bool left) {
  const std::string space(width - std::min(width, width_of(cell)), ' ');
  line += left ? cell + space : space + cell;
}

}  // namespace

TextTable::TextTable(std::vector<Column> columns, std::string indent)
    : columns_(std::move(columns)), indent_(std::move(indent)) {
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  const bool titled = std::any_of(titles.begin(), titles.end(),
                                  [](const std::string& title) { return !title.empty(); });
  if (titled) row(std::move(titles));
}

void TextTable::row(std::vector<std::string> cells, std::string rest) {
  CHECK(cells.size() <= columns_.size(), "{} cells in a table of {} columns", cells.size(),
        columns_.size());
  lines_.push_back({std::move(cells), std::move(rest), false});
}

void TextTable::line(std::string text) { lines_.push_back({{}, std::move(text), true}); }

std::string TextTable::text() const {
  std::vector<size_t> widths(columns_.size());
  for (const Line& line : lines_) {
    for (size_t c = 0; c < line.cells.size(); ++c)
      widths[c] = std::max(widths[c], width_of(line.cells[c]));
  }
  std::string out;
  for (const Line& line : lines_) {
    std::string printed = line.plain ? line.rest : indent_;
    for (size_t c = 0; c < line.cells.size(); ++c) {
      if (c > 0) printed += "  ";
      append_cell(printed, line.cells[c], widths[c], columns_[c].left);
    }
    if (!line.plain && !line.rest.empty()) printed += (line.cells.empty() ? "" : "  ") + line.rest;
    printed.erase(printed.find_last_not_of(' ') + 1);
    out += printed + "\n";
  }
  return out;
}

}  // namespace tombolo
