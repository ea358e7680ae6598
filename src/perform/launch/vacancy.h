// Vacancies: seats of a run that goes on, for which nobody has come.
//
// Where somebody else started the ranks, the launcher cannot start a new process for one whose host
// is gone. It leaves a note in the output folder, which all hosts share, and a spare that waits
// there (tombolo train --spare) takes the seat. Of several spares the one that first creates the
// seat's file has it; if it does not come either, the next epoch's note offers the seat again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/result.h"

namespace tombolo::launch {

struct Vacancy {
  uint64_t epoch = 0;
  std::vector<int32_t> ranks;
  bool operator==(const Vacancy&) const = default;
};

Status write_vacancy(const std::string& output, const Vacancy& vacancy);
// Nothing where all seats are taken.
Result<std::optional<Vacancy>> read_vacancy(const std::string& output);
// True for the first who asks.
Result<bool> claim_seat(const std::string& output, uint64_t epoch, int32_t rank);
// Note and claims.
void remove_vacancies(const std::string& output);

template <class Archive>
void describe(Archive& a, Vacancy& vacancy) {
  a.required("epoch", vacancy.epoch);
  a.required("ranks", vacancy.ranks);
}

}  // namespace tombolo::launch
