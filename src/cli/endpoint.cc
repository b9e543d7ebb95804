#include "cli/endpoint.h"

#include <pwd.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/file.h"

namespace muster::cli {
namespace {

constexpr std::string_view kHowToStart =
    "Start one with\n\n  $ musterd\n\nor say where it is with --endpoint HOST:PORT or "
    "MUSTER_ENDPOINT.";

Result<http::Endpoint> Parse(std::string_view text, std::string_view source) {
  if (text.starts_with("https://")) {
    return Fail(Code::kInvalidArgument, "{} is {}: https is not supported; use http://", source,
                text);
  }
  auto endpoint = http::ParseEndpoint(text);
  if (!endpoint) {
    return Fail(Code::kInvalidArgument, "{} is [{}]; expected HOST:PORT", source, text);
  }
  return endpoint;
}

bool IsAlive(int64_t pid) { return ::kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM; }

}  // namespace

Result<std::filesystem::path> DataDirectory(const Variables& environment) {
  if (const std::string* directory = FindVariable(environment, "MUSTER_DATA_DIR"))
    return *directory;
  if (const std::string* state = FindVariable(environment, "XDG_STATE_HOME");
      state && state->front() == '/')
    return std::filesystem::path(*state) / "muster";
  if (const std::string* home = FindVariable(environment, "HOME")) {
    return std::filesystem::path(*home) / ".local/state/muster";
  }
  const passwd* user = ::getpwuid(::getuid());
  if (user == nullptr || user->pw_dir == nullptr || *user->pw_dir != '/') {
    return Fail(Code::kFailedPrecondition,
                "there is no home directory; set MUSTER_DATA_DIR to musterd's data directory");
  }
  return std::filesystem::path(user->pw_dir) / ".local/state/muster";
}

std::string_view HowToStart() { return kHowToStart; }

Result<FoundEndpoint> FindEndpoint(const Variables& environment, const std::string& flag) {
  if (!flag.empty()) {
    MUSTER_ASSIGN(http::Endpoint endpoint, Parse(flag, "--endpoint"));
    return FoundEndpoint{std::move(endpoint), "--endpoint"};
  }
  if (const std::string* variable = FindVariable(environment, "MUSTER_ENDPOINT")) {
    MUSTER_ASSIGN(http::Endpoint endpoint, Parse(*variable, "MUSTER_ENDPOINT"));
    return FoundEndpoint{std::move(endpoint), "MUSTER_ENDPOINT"};
  }
  MUSTER_ASSIGN(const std::filesystem::path directory, DataDirectory(environment));
  const std::string file = (directory / "musterd.json").string();
  const Result<std::string> text = ReadFile(file);
  if (!text && text.error().code == Code::kNotFound) {
    return Fail(Code::kUnavailable, "musterd is not running here: there is no {}.\n{}", file,
                kHowToStart);
  }
  if (!text) return std::unexpected(text.error());
  const nlohmann::json content = nlohmann::json::parse(*text, nullptr, false);
  if (!content.is_object() || !content.contains("address") || !content["address"].is_string()) {
    return Fail(Code::kFailedPrecondition,
                "{} is damaged: it does not hold musterd's address. Restart musterd.", file);
  }
  if (content.contains("pid") && content["pid"].is_number_integer() &&
      !IsAlive(content["pid"].get<int64_t>())) {
    return Fail(Code::kUnavailable,
                "musterd is not running here: {} names process {}, which is gone.\n{}", file,
                content["pid"].get<int64_t>(), kHowToStart);
  }
  MUSTER_ASSIGN(http::Endpoint endpoint, Parse(content["address"].get<std::string>(), file));
  return FoundEndpoint{std::move(endpoint), file};
}

}  // namespace muster::cli
