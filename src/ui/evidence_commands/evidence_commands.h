// Commands that compare figures: reproduce, compare, report.
//
// Each is a function over plain options that writes its answer to a stream. Its add_NAME function
// defines its words on the command line (ui/command/command.h).
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ui/command/command.h"

namespace tombolo::evidence_commands {

struct ReproduceOptions {
  // "rail-only/table-4", or "rail-only" for all of it; empty: all claims; or "utilisation"
  std::string table;
  // Only for "reference" and "reference/TABLE", measurements that a law is compared with:
  std::string data;             // folder of rows to read instead of the program's; empty: those
  std::string law = "tombolo";  // that predicts them
  bool rows = false;            // each row, not only the table
  bool json = false;
};
Status reproduce(const ReproduceOptions& options, std::ostream& out);
// What `reproduce` answers for reference tables; `table` is "" for all, else its short name.
Status reproduce_reference(const ReproduceOptions& options, std::string_view table,
                           std::ostream& out);
// What `reproduce utilisation` answers: the law's MFU over the catalog, compared with the highest
// published.
Status reproduce_utilisation(const ReproduceOptions& options, std::ostream& out);
command::Command add_reproduce(CLI::App& app);

struct CompareOptions {
  std::string predicted;
  std::string measured;
  // Iterations of the measured trace to leave out; left out: trace::warmup_of.
  std::optional<int64_t> warmup;
  bool json = false;
};
Status compare(const CompareOptions& options, std::ostream& out);
command::Command add_compare(CLI::App& app);

struct ReportOptions {
  std::vector<std::string> traces;
  std::string out = "report.html";
  std::string title;
};
Status report(const ReportOptions& options, std::ostream& out);
command::Command add_report(CLI::App& app);

}  // namespace tombolo::evidence_commands
