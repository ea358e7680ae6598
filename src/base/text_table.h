// Tables that commands print: every column as wide as what stands in it.
//
//   TextTable table({{}, "iteration", "MFU", text_column("parallelism")});
//   table.row({"1.", "41.3 ms", "52.0 %", "tensor 8, pipeline 4"});
//   out << table.text();
//
//       iteration     MFU  parallelism
//   1.    41.3 ms  52.0 %  tensor 8, pipeline 4
//
// Numbers are aligned on the right, texts on the left. No line ends in spaces.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tombolo {

class TextTable {
 public:
  struct Column {
    Column(const char* title = "", bool left = false) : title(title), left(left) {}
    Column(std::string title, bool left = false) : title(std::move(title)), left(left) {}

    std::string title;
    bool left;  // aligned on the left
  };

  // A table whose columns all lack titles has no line of titles.
  explicit TextTable(std::vector<Column> columns, std::string indent = "  ");

  // Cells from the first column on; those that are missing at the end are empty. `rest` stands after the last of them and may
  // be of any length: it makes no column wider.
  void row(std::vector<std::string> cells, std::string rest = "");
  // A line between rows that belongs to no column.
  void line(std::string text);

  std::string text() const;

 private:
  struct Line {
    std::vector<std::string> cells;
    std::string rest;
    bool plain = false;
  };

  std::vector<Column> columns_;
  std::vector<Line> lines_;
  std::string indent_;
};

inline TextTable::Column text_column(std::string title = "") { return {std::move(title), true}; }

}  // namespace tombolo
