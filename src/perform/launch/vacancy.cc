#include "perform/launch/vacancy.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"

namespace tombolo::launch {
namespace {

constexpr int64_t kNoteMax = 1 << 20;  // bytes

std::string note(const std::string& output) { return output + "/vacant.json"; }

std::string claim(const std::string& output, uint64_t epoch, int32_t rank) {
  return fmt::format("{}/vacant-epoch-{}-rank-{}", output, epoch, rank);
}

}  // namespace

Status write_vacancy(const std::string& output, const Vacancy& vacancy) {
  CHECK(!vacancy.ranks.empty(), "epoch {} offers no seat", vacancy.epoch);
  return write_file(note(output), to_json(write_fields(vacancy)) + "\n");
}

Result<std::optional<Vacancy>> read_vacancy(const std::string& output) {
  std::error_code ec;
  if (!std::filesystem::exists(note(output), ec)) return std::nullopt;
  const auto text = read_file(note(output), kNoteMax);
  if (!text) return std::nullopt;  // just removed: everybody is there
  return std::optional(
      TRY(read_fields<Vacancy>(TRY(parse_json(*text, note(output))), note(output))));
}

Result<bool> claim_seat(const std::string& output, uint64_t epoch, int32_t rank) {
  const std::string path = claim(output, epoch, rank);
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 && errno == EEXIST) return false;
  if (fd < 0)
    return unusable(fmt::format("{}: cannot write it: {}", path, std::strerror(errno)),
                    "the --out folder of the run, which this host must share and may write to");
  close(fd);
  return true;
}

void remove_vacancies(const std::string& output) {
  std::error_code ec;
  std::filesystem::remove(note(output), ec);
  std::vector<std::filesystem::path> claims;
  for (const auto& entry : std::filesystem::directory_iterator(output, ec)) {
    if (entry.path().filename().string().starts_with("vacant-epoch-")) claims.push_back(entry);
  }
  for (const auto& path : claims) std::filesystem::remove(path, ec);
}

}  // namespace tombolo::launch
