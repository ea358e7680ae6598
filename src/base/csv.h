// Tables of comma-separated values, in and out.
//
// Lines that begin with '#' are skipped, the next line names the columns, every other line is a row
// with a cell for each. A cell in double quotes may hold commas and, doubled, quotes; it ends with
// its line. Errors name file, line and column; a cell's kind is looked at when it is asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/result.h"

namespace tombolo {

struct CsvHeader {
  std::string file;  // for messages
  std::vector<std::string> columns;
};

class CsvRow {
 public:
  struct Cell {
    std::string text;
    int column = 1;  // where it begins in its line
  };

  CsvRow(std::shared_ptr<const CsvHeader> header, int line, std::vector<Cell> cells)
      : header_(std::move(header)), line_(line), cells_(std::move(cells)) {
    CHECK(header_ && cells_.size() == header_->columns.size(),
          "line {} has {} cells for {} columns", line_, cells_.size(),
          header_ ? header_->columns.size() : 0);
  }

  int line() const { return line_; }
  const std::string& file() const { return header_->file; }
  // Whether the table has the column and this row says something in it.
  bool has(std::string_view column) const;

  // Unusable: no such column, an empty cell, or one of another kind. Numbers must be finite and at
  // least 0.
  Result<std::string> text(std::string_view column) const;
  Result<double> number(std::string_view column) const;
  Result<int64_t> count(std::string_view column) const;

  // What is wrong with a cell, after where it stands and what it says.
  Error complaint(std::string_view column, const std::string& why, std::string hint = {}) const;

 private:
  const Cell* find(std::string_view column) const;
  Result<const Cell*> needed(std::string_view column) const;  // that says something

  std::shared_ptr<const CsvHeader> header_;
  int line_;
  std::vector<Cell> cells_;
};

// A line as RFC 4180 has it: cells that need quotes get them, and quotes inside are doubled. A cell
// cannot hold the end of a line, which becomes a space.
std::string csv_line(std::span<const std::string> cells);
std::string csv_quoted(std::string_view cell);  // in quotes, needed or not

// Unusable: no line of columns, a column twice, a row with another number of cells, a quote that is
// not closed.
Result<std::vector<CsvRow>> parse_csv(std::string_view text, const std::string& file);

}  // namespace tombolo
