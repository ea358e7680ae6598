#include "perform/trust/credentials.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sstream>

#include "base/file.h"
#include "perform/trust/openssl.h"

namespace tombolo::trust {
namespace {

constexpr int64_t kPemMax = 64 * 1024;  // a certificate has less than 2 KiB
constexpr std::chrono::hours kWarnsBefore{24 * 14};
constexpr const char* kHowToRenew =
    "tombolo init --renew on the host with the authority; on others the same with --join, invited "
    "by that host";

std::string authority_path(const std::string& directory) { return directory + "/authority.pem"; }
std::string certificate_path(const std::string& directory) { return directory + "/host.pem"; }
std::string key_path(const std::string& directory) { return directory + "/host.key"; }
std::string refused_path(const std::string& directory) { return directory + "/refused"; }

Error file_error(const std::string& path, const char* doing) {
  return {ErrorCode::kUnusable,
          fmt::format("{}: cannot {} it: {}", path, doing, std::strerror(errno)),
          {},
          "a folder of your own: --credentials DIR"};
}

detail::BioPtr reader(const std::string& text) {
  return detail::BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// OpenSSL asks the terminal for a passphrase otherwise.
int no_passphrase(char*, int, int, void*) { return -1; }

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// Fails on a line that is no name: it may have been meant to keep a host out.
Result<std::set<std::string>> read_refused(const std::string& directory) {
  std::set<std::string> names;
  const std::string path = refused_path(directory);
  if (!exists(path)) return names;
  std::istringstream lines(TRY(read_file(path, kPemMax)));
  std::string name;
  for (int line = 1; std::getline(lines, name); ++line) {
    if (name.empty()) continue;
    TRY(during(check_name(name), fmt::format("reading {}:{}", path, line)));
    names.insert(name);
  }
  return names;
}

}  // namespace

namespace detail {

Result<CertificatePtr> certificate_of(const std::string& pem, const std::string& what) {
  const BioPtr bio = reader(pem);
  CertificatePtr certificate(PEM_read_bio_X509(bio.get(), nullptr, no_passphrase, nullptr));
  if (!certificate)
    return unusable(fmt::format("{} is no certificate: {}", what, openssl_reason()));
  return certificate;
}

Result<KeyPtr> key_of(const std::string& pem, const std::string& what) {
  const BioPtr bio = reader(pem);
  KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr));
  if (!key) return unusable(fmt::format("{} is no private key: {}", what, openssl_reason()));
  return key;
}

Result<std::string> pem_of(X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(bio.get(), certificate) != 1)
    return failed("cannot write a certificate: " + detail::openssl_reason());
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

std::chrono::sys_seconds time_of(const ASN1_TIME* time) {
  std::tm broken{};
  if (ASN1_TIME_to_tm(time, &broken) != 1) return {};
  return std::chrono::sys_seconds(std::chrono::seconds(timegm(&broken)));
}

std::string common_name(const X509_NAME* name) {
  std::array<char, 65> text{};
  const int size = X509_NAME_get_text_by_NID(const_cast<X509_NAME*>(name), NID_commonName,
                                             text.data(), static_cast<int>(text.size()));
  std::string out;
  for (int i = 0; i < size; ++i) out += text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
  return out;
}

}  // namespace detail

Status check_name(const std::string& name) {
  const bool good =
      !name.empty() && name.size() <= 63 && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '.';
      });
  if (good) return {};
  return unusable("the name of a host has 1 to 63 letters, digits, \"-\" and \".\"", "paris-1");
}

WallTime wall_time() {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

std::string date(WallTime time) {
  const std::time_t seconds = time.time_since_epoch().count();
  std::tm broken{};
  gmtime_r(&seconds, &broken);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02} UTC", broken.tm_year + 1900, broken.tm_mon + 1,
                     broken.tm_mday, broken.tm_hour, broken.tm_min);
}

namespace {

CertificateFacts facts_of(X509& certificate) {
  return {.name = detail::common_name(X509_get_subject_name(&certificate)),
          .begins = detail::time_of(X509_get0_notBefore(&certificate)),
          .expires = detail::time_of(X509_get0_notAfter(&certificate))};
}

}  // namespace

Result<CertificateFacts> check(const Credentials& credentials, WallTime now) {
  const auto authority = TRY(detail::certificate_of(credentials.authority, "authority.pem"));
  const auto own = TRY(detail::certificate_of(credentials.certificate, "host.pem"));
  const auto key = TRY(detail::key_of(credentials.key, "host.key"));
  if (X509_check_private_key(own.get(), key.get()) != 1) {
    ERR_clear_error();
    return unusable("host.key is not the key of host.pem");
  }
  const bool signed_by_it = X509_verify(own.get(), X509_get0_pubkey(authority.get())) == 1;
  ERR_clear_error();
  if (!signed_by_it) return unusable("host.pem is not signed by authority.pem");
  const CertificateFacts facts = facts_of(*own);
  if (now >= facts.expires)
    return unusable(
        fmt::format("the certificate of \"{}\" expired on {}", facts.name, date(facts.expires)),
        kHowToRenew);
  if (now < facts.begins)
    return unusable(fmt::format("the certificate of \"{}\" is valid from {}; it is {} here",
                                facts.name, date(facts.begins), date(now)),
                    "setting this host's clock");
  return facts;
}

Result<Credentials> load_credentials(const std::string& directory, WallTime now) {
  Credentials credentials = TRY(read_credentials(directory));
  TRY(during(check(credentials, now), "reading the credentials in " + directory));
  return credentials;
}

Result<Credentials> read_credentials(const std::string& directory) {
  if (!has_credentials(directory)) {
    return unusable(fmt::format("{}: there are no credentials", directory),
                    "tombolo init, or tombolo init --join HOST:PORT TOKEN where an authority "
                    "exists already");
  }
  Credentials credentials;  // g++ 12 forgets members when TRY leaves a braced list
  credentials.authority = TRY(read_file(authority_path(directory), kPemMax));
  credentials.certificate = TRY(read_file(certificate_path(directory), kPemMax));
  credentials.key = TRY(read_secret(key_path(directory)));
  credentials.refused = TRY(read_refused(directory));
  return credentials;
}

Status refuse_host(const std::string& directory, const std::string& name) {
  TRY(check_name(name));
  Credentials own = TRY(read_credentials(directory));
  const auto certificate = TRY(detail::certificate_of(own.certificate, "host.pem"));
  if (detail::common_name(X509_get_subject_name(certificate.get())) == name)
    return unusable(fmt::format("\"{}\" is this host itself", name));
  own.refused.insert(name);
  return write_file(refused_path(directory), fmt::format("{}\n", fmt::join(own.refused, "\n")));
}

Status renew_certificate(const std::string& directory, const Credentials& renewed, WallTime now) {
  const Credentials old = TRY(read_credentials(directory));
  if (renewed.key != old.key) return unusable("a renewed certificate is for the same key");
  if (TRY(fingerprint_of(renewed.authority)) != TRY(fingerprint_of(old.authority))) {
    return unusable(fmt::format("{} has credentials of another authority", directory),
                    "the invitation of the host that this one joined first");
  }
  const std::string name = TRY(check(renewed, now)).name;
  const auto own = TRY(detail::certificate_of(old.certificate, "host.pem"));
  const std::string was = detail::common_name(X509_get_subject_name(own.get()));
  if (name != was) {
    return unusable(fmt::format("this host is \"{}\", the new certificate is of \"{}\"", was, name),
                    fmt::format("tombolo init --invite {}", was));
  }
  return write_file(certificate_path(directory), renewed.certificate);
}

Result<CertificateFacts> certificate_in(const std::string& directory) {
  const std::string path = certificate_path(directory);
  return facts_of(*TRY(detail::certificate_of(TRY(read_file(path, kPemMax)), path)));
}

std::string expiry_warning(const CertificateFacts& facts, WallTime now) {
  const auto left = facts.expires - now;
  if (left > std::max<std::chrono::seconds>(kWarnsBefore, (facts.expires - facts.begins) / 10))
    return "";
  if (left <= std::chrono::seconds{0}) {
    return fmt::format(
        "the certificate of \"{}\" expired on {}: a connection that breaks does not come back. To "
        "renew it, also during a run: {}",
        facts.name, date(facts.expires), kHowToRenew);
  }
  const auto days = std::chrono::floor<std::chrono::days>(left).count();
  const auto hours = std::chrono::floor<std::chrono::hours>(left).count();
  return fmt::format(
      "the certificate of \"{}\" expires on {}, in {}; a run that loses a rank after "
      "that cannot continue. To renew it, also during a run: {}",
      facts.name, date(facts.expires),
      days > 1 ? fmt::format("{} days", days) : fmt::format("{} h", hours), kHowToRenew);
}

Status save_credentials(const std::string& directory, const Credentials& credentials) {
  for (const std::string& path :
       {authority_path(directory), certificate_path(directory), key_path(directory)}) {
    if (exists(path))
      return unusable(fmt::format("{} is there already", path),
                      "moving the folder away, or another one: --directory DIR");
  }
  const bool was_there = exists(directory);  // then others may have things there, too
  TRY(make_directories(directory));
  if (!was_there && chmod(directory.c_str(), 0700) != 0)
    return fail(file_error(directory, "close"));
  // host.pem comes last: who finds it finds the others.
  TRY(save_secret(key_path(directory), credentials.key));
  Status status = write_file(authority_path(directory), credentials.authority);
  if (status) status = write_file(certificate_path(directory), credentials.certificate);
  if (status) return {};
  unlink(key_path(directory).c_str());
  unlink(authority_path(directory).c_str());
  return status;
}

std::string default_directory() {
  if (const char* own = std::getenv("TOMBOLO_CREDENTIALS"); own && *own) return own;
  if (const char* settings = std::getenv("XDG_CONFIG_HOME"); settings && *settings)
    return std::string(settings) + "/tombolo";
  if (const char* home = std::getenv("HOME"); home && *home)
    return std::string(home) + "/.config/tombolo";
  return "";
}

bool has_credentials(const std::string& directory) {
  return !directory.empty() && exists(certificate_path(directory));
}

// link() fails where the name is taken; rename() would overwrite.
Status save_secret(const std::string& path, const std::string& text) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, getpid());
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return fail(file_error(path, "write"));
  const bool written =
      write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(fd) == 0;
  const bool named = written && link(temporary.c_str(), path.c_str()) == 0;
  const Error error = file_error(path, "write");
  close(fd);
  unlink(temporary.c_str());
  if (!named) return fail(error);
  return {};
}

Result<std::string> read_secret(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return fail(file_error(path, "read"));
  struct stat about {};
  const bool safe =
      fstat(fd, &about) == 0 && (about.st_mode & 077) == 0 && about.st_uid == geteuid();
  std::string text(kPemMax, '\0');
  const ssize_t got = safe ? read(fd, text.data(), text.size()) : 0;
  const Error error = file_error(path, "read");
  close(fd);
  if (!safe) {
    return unusable(fmt::format("{}: others than this user can read or have written it", path),
                    "chmod 600, if no other user has read it; else new credentials");
  }
  if (got < 0) return fail(error);
  text.resize(static_cast<size_t>(got));
  return text;
}

Result<std::string> fingerprint_of(const std::string& certificate_pem) {
  const auto certificate = TRY(detail::certificate_of(certificate_pem, "the authority"));
  std::array<unsigned char, 32> digest{};
  unsigned size = 0;
  if (X509_digest(certificate.get(), EVP_sha256(), digest.data(), &size) != 1 || size != 32)
    return failed("no digest of a certificate: " + detail::openssl_reason());
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace tombolo::trust
