#include "agent/packages.h"

#include <muster/v1/agent.pb.h>

#include <algorithm>
#include <string_view>

namespace muster::agent {

// install_packages.py, made a string by CMake.
extern const char kInstallPackagesScript[];

namespace {
std::string* FindVariable(std::vector<std::string>& environment, std::string_view name) {
  const auto is_it = [name](const std::string& variable) {
    return variable.starts_with(name) && variable.size() > name.size() &&
           variable[name.size()] == '=';
  };
  const auto found = std::ranges::find_if(environment, is_it);
  return found == environment.end() ? nullptr : &*found;
}

void SetVariable(std::vector<std::string>& environment, std::string_view name,
                 std::string_view value) {
  std::string text = fmt::format("{}={}", name, value);
  if (std::string* const variable = FindVariable(environment, name)) {
    *variable = std::move(text);
  } else {
    environment.push_back(std::move(text));
  }
}
}  // namespace

Program PackageInstaller(const muster::v1::PythonPackages& packages,
                         std::vector<std::string> environment, const std::string& directory) {
  SetVariable(environment, "PYTHONUNBUFFERED", "1");
  Program program;
  program.argv = {packages.interpreter(), "-c", kInstallPackagesScript,
                  packages.environment_directory()};
  for (const std::string& file : packages.files()) program.argv.push_back(file);
  program.environment = std::move(environment);
  program.working_directory = directory;
  program.keeps_status_pipe = true;
  return program;
}

void UseEnvironment(const muster::v1::PythonPackages& packages, Program& program) {
  const std::string& environment = packages.environment_directory();
  const std::string bin = environment + "/bin";
  const std::string* const path = FindVariable(program.environment, "PATH");
  const std::string before = path ? path->substr(5) : "/usr/local/bin:/usr/bin:/bin";
  SetVariable(program.environment, "PATH", bin + ":" + before);
  SetVariable(program.environment, "VIRTUAL_ENV", environment);
  if (program.argv.empty()) return;
  std::string& name = program.argv[0];
  if (name == "python" || name == "python3" || name == packages.interpreter()) {
    name = bin + "/python3";
  }
}

}  // namespace muster::agent
