// Rendezvous: how ranks that were started externally (torchrun, mpirun, srun, by hand) find each
// other, through one address and port.
//
// Rank 0 is the coordinator: it listens at the rendezvous and does the launcher's work
// (launcher.h). The others dial it. All of them derive the address alike, from what they were
// given.
//
// The job's token is either in the environment of all ranks (TOMBOLO_TOKEN), or rank 0 draws one
// and leaves it in the output folder, in a file that only this user can read, until all ranks are
// here. A rank that finds the file of an earlier run is refused, and looks again.
// docs/decisions/0009-rendezvous-and-token.md.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "perform/join/launch_environment.h"
#include "perform/join/security.h"
#include "perform/link/handshake.h"
#include "perform/transport/address.h"
#include "spec/cluster/islands.h"

namespace tombolo::join {

inline constexpr uint16_t kRendezvousPort = 29511;
inline constexpr const char* kTokenVariable = "TOMBOLO_TOKEN";

// `wanted` (HOST:PORT, from the command line) or what the launcher said or 127.0.0.1:29511. A name
// or an address of this host means its loopback; inside islands, the first of their hosts. Unusable
// where plain TCP may not go. With security that reaches other hosts an address is what it says,
// and a name is looked up.
Result<transport::Address> rendezvous_address(const std::string& wanted,
                                              const LaunchedRank& launched,
                                              const std::optional<cluster::Islands>& islands,
                                              const Security& security = {});

// The token of TOMBOLO_TOKEN; nothing where that is not set.
Result<std::optional<link::Token>> token_of_environment();

std::string token_path(const std::string& output);

// The file with the token, mode 0600, there as long as this object is.
class TokenFile {
 public:
  static Result<TokenFile> create(const std::string& path, const link::Token& token);
  TokenFile(TokenFile&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  TokenFile& operator=(TokenFile&&) = delete;
  ~TokenFile();

 private:
  explicit TokenFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Nothing while there is no such file. Unusable where others than its owner can read it.
Result<std::optional<link::Token>> read_token_file(const std::string& path);

}  // namespace tombolo::join
