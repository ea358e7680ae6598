// The metrics of each step, for dashboards: one row per step in three files of a folder.
//
//   steps.jsonl    {"step":1,"time":1763900000.25,"provenance":"measured","loss":5.54,...}; an
//                  unknown value is null
//   steps.csv      the same; an unknown value is an empty cell
//   events.out.tfevents.T.H.P   TensorBoard's, with the provenance before each tag
//                  ("measured/loss"); a file per process that wrote here
//
// A step has one row. If a step is repeated, because a run was resumed or restarted from an earlier
// step after a loss, its new row replaces the old one and all rows after it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "perform/board/line_file.h"

namespace tombolo::board {

class Board {
 public:
  struct Options {
    std::string folder;                // created where it is missing
    std::string provenance;            // "measured" or "emulated": of all figures
    std::vector<std::string> columns;  // in addition to step, time and provenance
    std::string host;                  // part of a file's name
    int64_t process = 0;
    double wall_time = 0;  // seconds since 1970
  };
  // Unusable: files that cannot be written, a steps.csv with other columns.
  static Result<Board> open(const Options& options);

  // `values` in the order of the columns. Steps count from 1. Fails like open(); the files then end
  // with a whole row, or with part of one that the next open() drops.
  Status add(int64_t step, double wall_time, std::span<const std::optional<double>> values);

 private:
  Board(std::string provenance, std::vector<std::string> columns, LineFile json, LineFile csv,
        std::string events_path)
      : provenance_(std::move(provenance)),
        columns_(std::move(columns)),
        json_(std::move(json)),
        csv_(std::move(csv)),
        events_path_(std::move(events_path)) {}
  Status add_event(int64_t step, double wall_time, std::span<const std::optional<double>> values);

  std::string provenance_;
  std::vector<std::string> columns_;
  LineFile json_, csv_;
  std::string events_path_;
  int64_t last_step_ = 0;  // in the event file
};

}  // namespace tombolo::board
