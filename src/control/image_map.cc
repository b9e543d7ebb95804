#include "control/image_map.h"

#include <fnmatch.h>
#include <unistd.h>

#include <filesystem>

namespace muster::control {
namespace {

namespace fs = std::filesystem;

std::string FindOnPath(std::string_view path, const std::string& program) {
  while (!path.empty()) {
    const size_t colon = path.find(':');
    const std::string_view directory = path.substr(0, colon);
    const fs::path candidate = fs::path(directory) / program;
    if (!directory.empty() && ::access(candidate.c_str(), X_OK) == 0) return candidate.string();
    if (colon == std::string_view::npos) break;
    path.remove_prefix(colon + 1);
  }
  return {};
}

// The interpreter that `python` (a virtual environment or an interpreter) names.
Result<std::string> InterpreterOf(const std::string& python, const std::string& pattern) {
  std::error_code error;
  if (fs::is_directory(python, error)) {
    for (const char* name : {"bin/python3", "bin/python"}) {
      const fs::path candidate = fs::path(python) / name;
      if (::access(candidate.c_str(), X_OK) == 0) return candidate.string();
    }
    return Fail(Code::kInvalidArgument,
                "images: pattern '{}': {} is a directory without bin/python3: name a virtual "
                "environment or an interpreter",
                pattern, python);
  }
  const std::string name = fs::path(python).filename();
  if (::access(python.c_str(), X_OK) != 0 || (name != "python3" && name != "python")) {
    return Fail(Code::kInvalidArgument,
                "images: pattern '{}': {} is not an executable python3: name a virtual environment "
                "or an interpreter called python3 or python",
                pattern, python);
  }
  return python;
}

bool IsVirtualEnvironment(const fs::path& interpreter) {
  std::error_code error;
  return fs::exists(interpreter.parent_path().parent_path() / "pyvenv.cfg", error);
}

}  // namespace

ImageMap::ImageMap(std::vector<ImageMapping> mappings, std::string path)
    : mappings_(std::move(mappings)), path_(std::move(path)) {}

std::vector<std::string> ImageMap::Problems() const {
  std::vector<std::string> problems;
  std::error_code error;
  for (const ImageMapping& mapping : mappings_) {
    if (!mapping.python.empty()) {
      if (auto found = InterpreterOf(mapping.python, mapping.pattern); !found) {
        problems.push_back(found.error().message);
      }
    }
    if (!mapping.working_directory.empty() && !fs::is_directory(mapping.working_directory, error)) {
      problems.push_back(fmt::format("images: pattern '{}': there is no directory {}",
                                     mapping.pattern, mapping.working_directory));
    }
  }
  return problems;
}

const ImageMapping* ImageMap::Match(std::string_view image_uri) const {
  const std::string uri(image_uri);
  for (const ImageMapping& mapping : mappings_) {
    if (::fnmatch(mapping.pattern.c_str(), uri.c_str(), 0) == 0) return &mapping;
  }
  static const ImageMapping kThisMachine;
  if (uri == kHostImage || job::IsPrebuiltImage(uri)) return &kThisMachine;
  return nullptr;
}

Result<LocalImage> ImageMap::Resolve(std::string_view image_uri) const {
  const ImageMapping* mapping = Match(image_uri);
  if (mapping == nullptr) {
    return Fail(
        Code::kNotFound,
        "The image {} means nothing on this machine yet. Add to musterd's configuration (the "
        "file given with --config; docs/guides/configuration.md), under images:, the line\n"
        "  - {{pattern: \"{}\", python: /path/to/venv}}\n"
        "and start musterd again: running jobs go on meanwhile",
        image_uri, image_uri);
  }
  LocalImage image{.interpreter = {},
                   .env = {},
                   .entrypoint = mapping->entrypoint,
                   .cmd = mapping->cmd,
                   .working_directory = mapping->working_directory};
  std::string path = path_;
  if (mapping->python.empty()) {
    image.interpreter = FindOnPath(path_, "python3");
  } else {
    MUSTER_ASSIGN(image.interpreter, InterpreterOf(mapping->python, mapping->pattern));
    path = fs::path(image.interpreter).parent_path().string() + ":" + path_;
  }
  image.env.emplace_back("PATH", path);
  if (!image.interpreter.empty() && IsVirtualEnvironment(image.interpreter)) {
    image.env.emplace_back("VIRTUAL_ENV",
                           fs::path(image.interpreter).parent_path().parent_path().string());
  }
  image.env.insert(image.env.end(), mapping->env.begin(), mapping->env.end());
  return image;
}

namespace {
void Append(std::vector<std::string>& to, const std::vector<std::string>& from) {
  to.insert(to.end(), from.begin(), from.end());
}
}  // namespace

Result<std::vector<std::string>> ProgramOf(const job::PoolPlan& pool, const LocalImage& image) {
  std::vector<std::string> program;
  if (const auto* package = std::get_if<job::PythonPackageTask>(&pool.task)) {
    program = {"python3", "-m", package->python_module};
    Append(program, package->args);
    return program;
  }
  const auto& container = std::get<job::ContainerTask>(pool.task);
  if (container.command.empty()) {
    program = image.entrypoint;
    Append(program, container.args.empty() ? image.cmd : container.args);
  } else {
    program = container.command;
    Append(program, container.args);
  }
  if (program.empty() ||
      (container.command.empty() && image.entrypoint.empty() && image.cmd.empty())) {
    return Fail(Code::kInvalidArgument,
                "job_spec.worker_pool_specs[{}].container_spec.command is empty, and the local "
                "environment for the image {} has no entrypoint: give a command, or an "
                "`entrypoint:` in the image's mapping in musterd's configuration",
                pool.pool, container.image_uri);
  }
  return program;
}

}  // namespace muster::control
