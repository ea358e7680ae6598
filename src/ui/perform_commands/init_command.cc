#include <CLI/CLI.hpp>
#include <iostream>

#include "base/clock.h"
#include "base/host_name.h"
#include "base/units.h"
#include "perform/transport/join_hosts.h"
#include "perform/trust/authority.h"
#include "ui/command/words.h"
#include "ui/perform_commands/perform_commands.h"

namespace tombolo::perform_commands {
namespace {

constexpr SimDuration kJoinMax{30'000'000'000};

Result<std::string> directory_of(const InitOptions& options) {
  if (!options.directory.empty()) return options.directory;
  std::string directory = trust::default_directory();
  if (directory.empty())
    return unusable("neither HOME nor XDG_CONFIG_HOME is set", "--directory DIR");
  return directory;
}

Status check_free(const std::string& directory) {
  if (!trust::has_credentials(directory)) return {};
  const auto there = trust::load_credentials(directory, trust::wall_time());
  if (!there) return fail(there.error());
  const trust::CertificateFacts facts = TRY(trust::check(*there, trust::wall_time()));
  return unusable(fmt::format("{} has the credentials of \"{}\" already, until {}", directory,
                              facts.name, trust::date(facts.expires)),
                  "--renew for a new certificate, or another folder: --directory DIR");
}

// What this host has now, in one line.
Status describe(const std::string& directory, std::ostream& out) {
  const trust::WallTime now = trust::wall_time();
  const trust::Credentials own = TRY(trust::load_credentials(directory, now));
  const trust::CertificateFacts facts = TRY(trust::check(own, now));
  out << fmt::format("{}: the certificate of \"{}\", until {}\n", directory, facts.name,
                     trust::date(facts.expires));
  return {};
}

// The first host: an authority and a certificate of its own.
Status begin(const InitOptions& options, const std::string& directory, std::ostream& out) {
  TRY(check_free(directory));
  const std::string name = options.name.empty() ? host_name() : options.name;
  TRY(during(trust::check_name(name), "naming this host; --name NAME says it better"));
  const trust::WallTime now = trust::wall_time();
  const trust::Authority authority = TRY(trust::Authority::create(now));
  TRY(trust::save_credentials(directory, TRY(authority.issue(name, trust::host_validity(now)))));
  TRY(authority.save(directory));
  TRY(describe(directory, out));
  out << "this host has the authority; the next host: tombolo init --invite NAME\n";
  return {};
}

// Waits for the host that it invites.
Status invite(const InitOptions& options, const std::string& directory, std::ostream& out) {
  const Seconds lasts = TRY(during(parse_quantity<Seconds>(options.lasts), "reading --for"));
  if (lasts.value <= 0 || lasts.value > 86400)
    return unusable("an invitation lasts more than nothing and at most a day", "--for 15min");
  TRY(during(trust::check_name(options.invite), "reading --invite"));
  const trust::Credentials own = TRY(trust::load_credentials(directory, trust::wall_time()));
  const trust::Authority authority = TRY(trust::Authority::load(directory));
  if (own.refused.contains(options.invite)) {
    return unusable(fmt::format("this host refuses \"{}\"", options.invite),
                    fmt::format("another name, or without its line in {}/refused", directory));
  }
  SystemClock clock;
  transport::Welcome welcome{
      .name = options.invite,
      .invitation =
          TRY(trust::Invitation::create(TRY(trust::fingerprint_of(authority.certificate())))),
      .deadline = clock.now() + round_to_ns(lasts)};
  welcome.at = TRY(during(transport::parse_address(options.listen), "reading --listen"));
  welcome.at.host = TRY(transport::resolve(welcome.at.host));
  const bool anywhere = welcome.at.host == "0.0.0.0";
  welcome.on_listen = [&](uint16_t port) {
    out << fmt::format(
        "on the host that becomes \"{}\", within {}:\n\n  tombolo init --join {}:{} {}\n\n",
        options.invite, brief(lasts), anywhere ? host_name() : welcome.at.host, port,
        welcome.invitation.text());
    out.flush();
  };
  welcome.log = [](const std::string& line) { std::cerr << line << "\n"; };
  const std::string from = TRY(transport::welcome_host(welcome, authority, own, clock));
  out << fmt::format("\"{}\" joined, from {}\n", options.invite, from);
  return {};
}

Status join(const InitOptions& options, const std::string& directory, std::ostream& out) {
  std::string key;  // of the certificate to renew
  if (options.renew) {
    key = TRY(trust::read_credentials(directory)).key;
  } else {
    TRY(check_free(directory));
  }
  const auto inviter =
      TRY(during(transport::parse_address(options.join.front()), "reading --join"));
  std::string text = options.join.size() > 1 ? options.join[1] : "";
  if (text.empty()) std::getline(std::cin, text);
  const auto invitation = TRY(trust::Invitation::parse(text));
  SystemClock clock;
  const trust::Credentials own =
      TRY(transport::join_host(inviter, invitation, kJoinMax, clock, key));
  TRY(options.renew ? trust::renew_certificate(directory, own, trust::wall_time())
                    : trust::save_credentials(directory, own));
  return describe(directory, out);
}

// The host that has the authority renews its own certificate.
Status renew(const std::string& directory, std::ostream& out) {
  const trust::WallTime now = trust::wall_time();
  const trust::Credentials old = TRY(trust::read_credentials(directory));
  auto authority = trust::Authority::load(directory);
  if (!authority) {
    return fail(
        Error(authority.error()).during("renewing; a host that joined renews with --renew --join"));
  }
  TRY(trust::renew_certificate(directory, TRY(authority->renew(old, now)), now));
  return describe(directory, out);
}

// A folder to carry to a host that cannot call this one.
Status issue(const InitOptions& options, const std::string& directory, std::ostream& out) {
  const trust::Authority authority = TRY(trust::Authority::load(directory));
  const std::string to = options.to.empty() ? options.issue : options.to;
  TRY(check_free(to));
  TRY(trust::save_credentials(
      to, TRY(authority.issue(options.issue, trust::host_validity(trust::wall_time())))));
  TRY(describe(to, out));
  out << "it holds a secret key: carry it over a safe way, and remove it here\n";
  return {};
}

Status refuse(const InitOptions& options, const std::string& directory, std::ostream& out) {
  TRY(trust::refuse_host(directory, options.refuse));
  out << fmt::format(
      "{0}/refused: this host refuses \"{1}\" from its next connection on; the same on every other "
      "host: tombolo init --refuse {1}\n",
      directory, options.refuse);
  return {};
}

}  // namespace

Status init(const InitOptions& options, std::ostream& out) {
  const std::string directory = TRY(directory_of(options));
  if (!options.invite.empty()) return invite(options, directory, out);
  if (!options.join.empty()) return join(options, directory, out);
  if (!options.issue.empty()) return issue(options, directory, out);
  if (options.renew) return renew(directory, out);
  if (!options.refuse.empty()) return refuse(options, directory, out);
  return begin(options, directory, out);
}

command::Command add_init(CLI::App& app) {
  auto options = std::make_shared<InitOptions>();
  CLI::App* words =
      command::add_command(app, {"init", command::kTraining, "certificates for runs across hosts",
                                 "tombolo init --invite paris-1 --for 1h"});
  command::heading(words, "This host");
  words
      ->add_option("--directory", options->directory,
                   "of this host's credentials; left out: ~/.config/tombolo")
      ->type_name("FOLDER");
  words->add_option("--name", options->name, "of this host; left out: its host name")
      ->type_name("NAME");
  command::heading(words, "On the first host");
  CLI::Option* invite =
      words->add_option("--invite", options->invite, "a host that may join: waits for it")
          ->type_name("NAME");
  words->add_option("--for", options->lasts, "how long an invitation lasts")
      ->type_name("TIME")
      ->needs(invite);
  words->add_option("--listen", options->listen, "where the invited host calls")
      ->type_name("HOST:PORT")
      ->needs(invite);
  CLI::Option* issue = words
                           ->add_option("--issue", options->issue,
                                        "a host: makes its credentials here, in a folder to carry")
                           ->type_name("NAME")
                           ->excludes(invite);
  words->add_option("--to", options->to, "that folder; left out: the name")
      ->type_name("FOLDER")
      ->needs(issue);
  command::heading(words, "On each other host");
  CLI::Option* join =
      words
          ->add_option("--join", options->join,
                       "where the first host waits, and the invitation, or it comes from stdin")
          ->type_name("HOST:PORT")
          ->expected(1, 2)
          ->excludes(invite)
          ->excludes(issue);
  command::heading(words, "Later");
  words
      ->add_flag("--renew", options->renew,
                 "a new certificate for the same key, alone on the host with the authority, with "
                 "--join on others")
      ->excludes(invite)
      ->excludes(issue);
  words
      ->add_option("--refuse", options->refuse,
                   "a host that is to be kept out, on each host that shall refuse it")
      ->type_name("NAME")
      ->excludes(invite)
      ->excludes(join)
      ->excludes(issue);
  return {words, [options](std::ostream& out) { return init(*options, out); }, true};
}

}  // namespace tombolo::perform_commands
