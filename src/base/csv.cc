#include "base/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/file.h"

namespace tombolo {
namespace {

// Where messages say that something is.
struct Line {
  const std::string& file;
  int number = 0;
  std::string text() const { return fmt::format("{}:{}", file, number); }
};

// Splits one line into cells. `columns`: how many the table has, as far as that is known.
Result<std::vector<CsvRow::Cell>> split(std::string_view line, const Line& where, size_t columns) {
  std::vector<CsvRow::Cell> cells;
  cells.reserve(columns);
  for (size_t i = 0;; ++i) {
    CsvRow::Cell cell{"", static_cast<int>(i) + 1};
    if (i < line.size() && line[i] == '"') {
      for (++i;; ++i) {
        if (i >= line.size()) {
          return unusable(
              fmt::format("{}:{}: a quote that is not closed", where.text(), cell.column),
              "a cell that ends with its line, with quotes inside doubled");
        }
        if (line[i] != '"') {
          cell.text += line[i];
        } else if (i + 1 < line.size() && line[i + 1] == '"') {
          cell.text += line[++i];
        } else {
          break;
        }
      }
      if (++i < line.size() && line[i] != ',') {
        return unusable(
            fmt::format("{}:{}: \"{}\" after a closed quote", where.text(), i + 1, line[i]),
            "a comma");
      }
    } else {
      const size_t end = std::min(line.find(',', i), line.size());
      cell.text = line.substr(i, end - i);
      i = end;
    }
    cells.push_back(std::move(cell));
    if (i >= line.size()) return cells;
  }
}

Result<CsvHeader> read_header(std::vector<CsvRow::Cell> cells, const std::string& file,
                              const Line& where) {
  CsvHeader header{file, {}};
  for (CsvRow::Cell& cell : cells) {
    if (cell.text.empty()) {
      return unusable(fmt::format("{}:{}: a column without a name", where.text(), cell.column));
    }
    if (std::count(header.columns.begin(), header.columns.end(), cell.text) > 0) {
      return unusable(
          fmt::format("{}:{}: column \"{}\" twice", where.text(), cell.column, cell.text));
    }
    header.columns.push_back(std::move(cell.text));
  }
  return header;
}

template <typename Number>
bool parse_whole(const std::string& text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string csv_quoted(std::string_view cell) {
  std::string out = "\"";
  for (const char c : cell) {
    if (c == '"') out += '"';
    out += c == '\n' || c == '\r' ? ' ' : c;
  }
  return out + "\"";
}

std::string csv_line(std::span<const std::string> cells) {
  std::string line;
  for (const std::string& cell : cells) {
    if (&cell != &cells.front()) line += ',';
    const bool plain = cell.find_first_of(",\"\r\n") == std::string::npos;
    line += plain ? cell : csv_quoted(cell);
  }
  return line + '\n';
}

const CsvRow::Cell* CsvRow::find(std::string_view column) const {
  const auto& columns = header_->columns;
  const auto found = std::find(columns.begin(), columns.end(), column);
  return found == columns.end() ? nullptr : &cells_[static_cast<size_t>(found - columns.begin())];
}

bool CsvRow::has(std::string_view column) const {
  const Cell* cell = find(column);
  return cell && !cell->text.empty();
}

Error CsvRow::complaint(std::string_view column, const std::string& why, std::string hint) const {
  const Cell* cell = find(column);
  return {ErrorCode::kUnusable,
          fmt::format("{}:{}:{}: {} = \"{}\": {}", file(), line_, cell ? cell->column : 1, column,
                      cell ? cell->text : "", why),
          {},
          std::move(hint)};
}

Result<const CsvRow::Cell*> CsvRow::needed(std::string_view column) const {
  const Cell* cell = find(column);
  if (!cell) {
    return unusable(fmt::format("{}: there is no column \"{}\"", file(), column),
                    fmt::format("the columns {}", fmt::join(header_->columns, ",")));
  }
  if (cell->text.empty()) return fail(complaint(column, "is needed"));
  return cell;
}

Result<std::string> CsvRow::text(std::string_view column) const {
  return TRY(needed(column))->text;
}

Result<double> CsvRow::number(std::string_view column) const {
  const std::string& cell = TRY(needed(column))->text;
  double value = 0;
  if (!parse_whole(cell, value) || !std::isfinite(value) || value < 0) {
    return fail(complaint(column, "wanted a number of at least 0"));
  }
  return value;
}

Result<int64_t> CsvRow::count(std::string_view column) const {
  const std::string& cell = TRY(needed(column))->text;
  int64_t value = 0;
  if (!parse_whole(cell, value) || value < 0 || value > 1'000'000'000'000) {
    return fail(complaint(column, "wanted a whole number between 0 and 10^12"));
  }
  return value;
}

Result<std::vector<CsvRow>> parse_csv(std::string_view text, const std::string& file) {
  std::shared_ptr<const CsvHeader> header;
  std::vector<CsvRow> rows;
  int number = 0;
  text = without_byte_order_mark(text);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    const Line where{file, number};
    std::vector<CsvRow::Cell> cells = TRY(split(line, where, header ? header->columns.size() : 0));
    if (!header) {
      header = std::make_shared<CsvHeader>(TRY(read_header(std::move(cells), file, where)));
      continue;
    }
    if (cells.size() != header->columns.size()) {
      return unusable(fmt::format("{}: {} cells for {} columns", where.text(), cells.size(),
                                  header->columns.size()),
                      "quotes around a cell that holds a comma");
    }
    rows.emplace_back(header, number, std::move(cells));
  }
  if (!header) {
    return unusable(file + ": there is no line that names the columns");
  }
  return rows;
}

}  // namespace tombolo
