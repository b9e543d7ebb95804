#include "cli/run_spec.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace muster::cli {
namespace {

using nlohmann::json;

constexpr auto kPassedOn =
    std::to_array<std::string_view>({"PATH", "VIRTUAL_ENV", "PYTHONPATH", "CONDA_PREFIX",
                                     "LD_LIBRARY_PATH", "HOME", "USER", "LANG"});

// The service expands $(VAR) and makes $$ one $. Doubles what must stay as it is.
std::string Escape(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const size_t dollars = std::min(text.find_first_not_of('$'), text.size());
    const bool has_meaning = dollars > 1 || (dollars == 1 && text.substr(1).starts_with('('));
    escaped.append(has_meaning ? 2 * dollars : dollars, '$');
    text.remove_prefix(dollars);
    const size_t plain = std::min(text.find('$'), text.size());
    escaped += text.substr(0, plain);
    text.remove_prefix(plain);
  }
  return escaped;
}

// What the user typed stays as it was typed, since to most people $(…) and $$ are the shell's; but
// $(AIP_MODEL_DIR) and its like mean nothing to a shell, and are left to the service.
std::string EscapeTyped(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const size_t reference = std::min({text.find("$(AIP_"), text.find("$(CLOUD_ML_"), text.size()});
    // Behind another $, it is escaped already.
    const size_t end = reference < text.size() && (reference == 0 || text[reference - 1] != '$')
                           ? reference
                           : std::min(text.find_first_not_of('$', reference), text.size());
    escaped += Escape(text.substr(0, end));
    text.remove_prefix(end);
    if (end != reference) continue;
    const size_t close = std::min(text.find(')'), text.size() - 1) + 1;
    escaped += text.substr(0, close);
    text.remove_prefix(close);
  }
  return escaped;
}

bool IsVariableName(std::string_view name) {
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) == 0 &&
         std::ranges::all_of(name,
                             [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

Result<json> BuildEnvironment(const RunFlags& flags, const Variables& environment) {
  std::vector<std::pair<std::string, std::string>> variables;
  const auto set = [&variables](const std::string& name, std::string value) {
    std::erase_if(variables, [&name](const auto& pair) { return pair.first == name; });
    variables.emplace_back(name, std::move(value));
  };
  const bool is_host = flags.image == kHostImage;
  for (const std::string_view name : kPassedOn) {
    const auto found = environment.find(name);
    if (is_host && found != environment.end() && !found->second.empty()) {
      set(std::string(name), Escape(found->second));
    }
  }
  set("PYTHONUNBUFFERED", "1");
  for (const std::string& text : flags.env) {
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    if (!IsVariableName(name)) {
      return Fail(Code::kInvalidArgument,
                  "Invalid value for [--env]: [{}]; expected NAME=VALUE, or NAME alone to pass on "
                  "this shell's value",
                  text);
    }
    const auto found = environment.find(name);
    if (equals != std::string::npos) {
      set(name, EscapeTyped(std::string_view(text).substr(equals + 1)));
    } else if (found != environment.end()) {
      set(name, Escape(found->second));
    } else {
      return Fail(Code::kInvalidArgument, "Invalid value for [--env]: {} is not set here", name);
    }
  }
  json list = json::array();
  for (const auto& [name, value] : variables) list.push_back({{"name", name}, {"value", value}});
  return list;
}

// `env -C DIRECTORY PROGRAM` starts the program there. A container has its own directories.
json BuildContainer(const RunFlags& flags, const std::string& directory, json environment) {
  json command = json::array();
  if (flags.image == kHostImage) command = {"env", "-C", Escape(directory)};
  command.push_back(EscapeTyped(flags.program.front()));
  json container = {
      {"imageUri", flags.image}, {"command", std::move(command)}, {"env", std::move(environment)}};
  for (size_t i = 1; i < flags.program.size(); ++i) {
    container["args"].push_back(EscapeTyped(flags.program[i]));
  }
  return container;
}

Status CheckFlags(const RunFlags& flags) {
  if (flags.program.empty()) {
    return Fail(Code::kInvalidArgument,
                "there is no program to run; put it behind --: muster run --workers 2 -- python "
                "train.py");
  }
  if (flags.program.front().find('=') != std::string::npos) {
    return Fail(Code::kInvalidArgument,
                "[{}] is no program; to set a variable use --env NAME=VALUE before --",
                flags.program.front());
  }
  if (flags.workers < 0 || flags.parameter_servers < 0) {
    return Fail(Code::kInvalidArgument, "--workers and --parameter-servers cannot be negative");
  }
  if (flags.accelerator_count > 0 && flags.accelerator_type.empty()) {
    return Fail(Code::kInvalidArgument,
                "--accelerator-type is required as --accelerator-count is specified");
  }
  return {};
}

// Letters, digits, "_", "." and "-": fit for a name and for a part of a path.
std::string Slug(std::string_view text) {
  std::string slug;
  for (const char c : text.substr(0, 60)) {
    const bool keep = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
    slug += keep ? c : '-';
  }
  return slug.find_first_not_of("-._") == std::string::npos ? "run" : slug;
}

std::string CompactTime(Time now) {
  std::string text = FormatRfc3339(now).substr(0, 19);  // 2026-11-20T17:36:26
  std::erase_if(text, [](char c) { return c == '-' || c == ':'; });
  std::ranges::replace(text, 'T', '-');
  return text;  // 20261120-173626
}

}  // namespace

std::string NameOfProgram(const std::vector<std::string>& program) {
  if (program.empty()) return "run";
  const auto base = [](std::string_view path) { return path.substr(path.rfind('/') + 1); };
  std::string_view word = base(program.front());
  const bool is_launcher = word.starts_with("python") || word == "bash" || word == "sh" ||
                           word == "torchrun" || word == "env" || word == "uv";
  const bool is_inline = std::ranges::find(program, "-c") != program.end();
  if (is_launcher && !is_inline) {
    const auto is_script = [](const std::string& text) {
      return text.ends_with(".py") || text.ends_with(".sh");
    };
    const auto is_word = [](const std::string& text) {
      return !text.starts_with('-') && text != "run";
    };
    auto found = std::find_if(program.begin() + 1, program.end(), is_script);
    if (found == program.end()) found = std::find_if(program.begin() + 1, program.end(), is_word);
    if (found != program.end()) word = base(*found);
  }
  if (word.ends_with(".py") || word.ends_with(".sh")) word.remove_suffix(3);
  return Slug(word);
}

Result<json> BuildRunJob(const RunFlags& flags, const Variables& environment,
                         const std::string& directory, Time now) {
  MUSTER_TRY(CheckFlags(flags));
  MUSTER_ASSIGN(json env, BuildEnvironment(flags, environment));
  const json container = BuildContainer(flags, directory, std::move(env));
  const auto pool = [&](int replicas, bool accelerated) {
    if (replicas == 0) return json::object();
    json machine = {{"machineType", flags.machine_type}};
    if (accelerated && !flags.accelerator_type.empty()) {
      machine["acceleratorType"] = flags.accelerator_type;
      machine["acceleratorCount"] = std::max(flags.accelerator_count, 1);
    }
    return json{{"machineSpec", std::move(machine)},
                {"replicaCount", std::to_string(replicas)},
                {"containerSpec", container}};
  };
  json pools = {pool(1, true), pool(flags.workers, true), pool(flags.parameter_servers, false),
                pool(flags.evaluator ? 1 : 0, true)};
  while (pools.back().empty()) pools.erase(pools.size() - 1);

  const std::string name =
      flags.display_name.empty() ? NameOfProgram(flags.program) : flags.display_name;
  std::string output = flags.base_output_directory;
  if (output.empty()) {
    output = fmt::format("gs://muster-runs/{}-{}", Slug(name), CompactTime(now));
  }
  json job = {{"displayName", name},
              {"jobSpec",
               {{"workerPoolSpecs", std::move(pools)},
                {"baseOutputDirectory", {{"outputUriPrefix", output}}}}}};
  if (flags.timeout) {
    job["jobSpec"]["scheduling"]["timeout"] = fmt::format("{}s", flags.timeout->count());
  }
  if (!flags.labels.empty()) job["labels"] = flags.labels;
  return job;
}

}  // namespace muster::cli
