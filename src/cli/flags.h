// Flags as commands declare them, on top of CLI11.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/api.h"
#include "cli/context.h"
#include "cli/resource_name.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
class Option;
}  // namespace CLI

namespace muster::cli {

// --name=TEXT; the last one counts. `name` may tell how the value is called: "--region=REGION".
CLI::Option* AddText(CLI::App& app, const std::string& name, std::string& value,
                     const std::string& help);
CLI::Option* AddText(CLI::App& app, const std::string& name, std::optional<std::string>& value,
                     const std::string& help);
// May come several times; all values as written.
CLI::Option* AddTexts(CLI::App& app, const std::string& name, std::vector<std::string>& values,
                      const std::string& help);
// --name and --no-name.
CLI::Option* AddSwitch(CLI::App& app, const std::string& name, std::optional<bool>& value,
                       const std::string& help);

// Of commands that talk to musterd.
struct ServerFlags {
  std::string project;
  std::string region;
  std::string endpoint;
  bool quiet = false;  // gcloud's; nothing here asks questions
};
void AddServerFlags(CLI::App& app, ServerFlags& flags);

// Where the command works, and the server it talks to. Fails if there is no musterd.
struct Session {
  Location location;
  Api api;
};
Result<Session> OpenSession(const Context& context, const ServerFlags& flags);

}  // namespace muster::cli
