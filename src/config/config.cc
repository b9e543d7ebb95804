#include "config/config.h"

#include <yaml-cpp/yaml.h>

#include <functional>

#include "base/file.h"

namespace muster::config {
namespace {

// Where we are in the document, for errors.
class Reader {
 public:
  explicit Reader(std::string origin) : origin_(std::move(origin)) {}

  std::unexpected<Error> Bad(const YAML::Node& at, std::string_view message) const {
    return Fail(Code::kInvalidArgument, "{}:{}: {}", origin_, at.Mark().line + 1, message);
  }

  using Field = std::function<Status(const YAML::Node&)>;

  // A key that is there twice is an error, however deep: only one of its values would count.
  Status NoDuplicates(const YAML::Node& node) const {
    std::map<std::string, int> lines;
    for (const auto& entry : node) {
      if (!node.IsMap()) {
        MUSTER_TRY(NoDuplicates(entry));
        continue;
      }
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "…";
      const auto [first, is_new] = lines.emplace(key, entry.first.Mark().line + 1);
      if (!is_new) {
        return Bad(entry.first, fmt::format("the key '{}' is there twice, first in line {}", key,
                                            first->second));
      }
      MUSTER_TRY(NoDuplicates(entry.second));
    }
    return {};
  }

  // Calls the field of each key of the mapping; an unknown key is an error.
  Status Mapping(const YAML::Node& node, const std::string& what,
                 const std::map<std::string, Field>& fields) const {
    if (!node.IsMap()) return Bad(node, fmt::format("{} must be a mapping", what));
    for (const auto& entry : node) {
      const std::string key = entry.first.Scalar();
      const auto field = fields.find(key);
      if (field == fields.end()) {
        std::string known;
        for (const auto& [name, unused] : fields) known += (known.empty() ? "" : ", ") + name;
        return Bad(entry.first, fmt::format("{} has no key '{}'; it knows: {}", what, key, known));
      }
      MUSTER_TRY(field->second(entry.second));
    }
    return {};
  }

  Status Sequence(const YAML::Node& node, const std::string& what, const Field& element) const {
    if (!node.IsSequence()) return Bad(node, fmt::format("{} must be a list", what));
    for (const YAML::Node& entry : node) MUSTER_TRY(element(entry));
    return {};
  }

  template <typename T>
  Field Scalar(const std::string& what, T& value) const {
    return [this, what, &value](const YAML::Node& node) -> Status {
      if (!node.IsScalar() || !YAML::convert<T>::decode(node, value)) {
        return Bad(node, fmt::format("{}: '{}' is not a {}", what,
                                     node.IsScalar() ? node.Scalar() : "…", KindName<T>()));
      }
      return {};
    };
  }

  Field Number(const std::string& what, double least,
               const std::function<void(double)>& set) const {
    return [this, what, least, set](const YAML::Node& node) -> Status {
      double value = 0;
      MUSTER_TRY(Scalar(what, value)(node));
      if (!(value >= least)) return Bad(node, fmt::format("{} must be at least {}", what, least));
      set(value);
      return {};
    };
  }

  Field Strings(const std::string& what, std::vector<std::string>& value) const {
    return [this, what, &value](const YAML::Node& node) {
      return Sequence(node, what, [&](const YAML::Node& entry) -> Status {
        return Scalar(what, value.emplace_back())(entry);
      });
    };
  }

  template <typename T>
  Field Choice(const std::string& what, const std::map<std::string, T>& choices, T& value) const {
    return [this, what, choices, &value](const YAML::Node& node) -> Status {
      const auto choice = node.IsScalar() ? choices.find(node.Scalar()) : choices.end();
      if (choice == choices.end()) {
        std::string names;
        for (const auto& [name, unused] : choices) names += (names.empty() ? "" : " or ") + name;
        return Bad(node, fmt::format("{} is {}", what, names));
      }
      value = choice->second;
      return {};
    };
  }

  // "10s", "500ms", "2m"; a bare number is seconds.
  Field Period(const std::string& what, std::chrono::milliseconds& value) const {
    return [this, what, &value](const YAML::Node& node) -> Status {
      const std::string text = node.IsScalar() ? node.Scalar() : "";
      static const std::map<std::string, double> kUnits = {
          {"ms", 1}, {"s", 1000}, {"", 1000}, {"m", 60'000}, {"h", 3'600'000}};
      char* end = nullptr;
      const double number = std::strtod(text.c_str(), &end);
      const auto unit = kUnits.find(end);
      if (text.empty() || end == text.c_str() || unit == kUnits.end() || !(number >= 0) ||
          number * unit->second > 1e12) {
        return Bad(node, fmt::format("{}: '{}' is not a duration such as 10s", what, text));
      }
      value = std::chrono::milliseconds(int64_t(number * unit->second));
      return {};
    };
  }

 private:
  template <typename T>
  static const char* KindName() {
    if constexpr (std::is_same_v<T, std::string>) return "text";
    if constexpr (std::is_same_v<T, bool>) return "truth value";
    return "number";
  }

  std::string origin_;
};

Status ReadImage(const Reader& reader, const YAML::Node& node, control::ImageMapping& image) {
  MUSTER_TRY(reader.Mapping(
      node, "images",
      {{"pattern", reader.Scalar("images.pattern", image.pattern)},
       {"python", reader.Scalar("images.python", image.python)},
       {"env",
        [&](const YAML::Node& env) -> Status {
          if (!env.IsMap()) return reader.Bad(env, "images.env must be a mapping");
          for (const auto& entry : env) {
            auto& [name, value] = image.env.emplace_back(entry.first.Scalar(), "");
            MUSTER_TRY(reader.Scalar("images.env." + name, value)(entry.second));
          }
          return {};
        }},
       {"entrypoint", reader.Strings("images.entrypoint", image.entrypoint)},
       {"cmd", reader.Strings("images.cmd", image.cmd)},
       {"working_directory", reader.Scalar("images.working_directory", image.working_directory)}}));
  if (image.pattern.empty()) return reader.Bad(node, "an image needs a pattern");
  return {};
}

Status ReadMachineType(const Reader& reader, const YAML::Node& node, job::MachineType& type) {
  MUSTER_TRY(reader.Mapping(
      node, "machine_types",
      {{"name", reader.Scalar("machine_types.name", type.name)},
       {"vcpus", reader.Number("machine_types.vcpus", 0, [&](double v) { type.vcpus = v; })},
       {"memory_gb", reader.Number("machine_types.memory_gb", 0,
                                   [&](double v) { type.memory_mb = int64_t(v * 1024); })},
       {"egress_gbps", reader.Number("machine_types.egress_gbps", 0,
                                     [&](double v) { type.egress_mbps = int64_t(v * 1000); })},
       {"accelerators", reader.Number("machine_types.accelerators", 0,
                                      [&](double v) { type.accelerator_count = int(v); })}}));
  if (type.name.empty()) return reader.Bad(node, "a machine type needs a name");
  if (type.vcpus <= 0 || type.memory_mb <= 0) {
    return reader.Bad(node, fmt::format("machine type {} needs vcpus and memory_gb", type.name));
  }
  return {};
}

Status ReadBuckets(const Reader& reader, const YAML::Node& node, Config& config) {
  if (!node.IsMap()) return reader.Bad(node, "buckets must be a mapping");
  for (const auto& entry : node) {
    const std::string name = entry.first.Scalar();
    std::string directory;
    MUSTER_TRY(reader.Scalar("buckets." + name, directory)(entry.second));
    if (!directory.starts_with('/')) {
      return reader.Bad(entry.second,
                        fmt::format("buckets.{}: '{}' is not an absolute path", name, directory));
    }
    if (name == "root") {
      config.buckets_root = directory;
    } else {
      config.buckets[name] = directory;
    }
  }
  return {};
}

Status ReadPorts(const Reader& reader, const YAML::Node& node, std::pair<int, int>& ports) {
  const std::string text = node.IsScalar() ? node.Scalar() : "";
  int used = 0;
  if (std::sscanf(text.c_str(), "%d-%d%n", &ports.first, &ports.second, &used) != 2 ||
      size_t(used) != text.size() || ports.first < 1024 || ports.second > 65535 ||
      ports.first > ports.second) {
    return reader.Bad(node, fmt::format("ports: '{}' is not a range such as 20000-29999", text));
  }
  return {};
}

Status ReadRoot(const Reader& reader, const YAML::Node& root, Config& config) {
  const std::map<std::string, Isolation> isolation = {{"auto", Isolation::kAuto},
                                                      {"off", Isolation::kOff}};
  return reader.Mapping(
      root, "the configuration",
      {{"network",
        reader.Choice<Network>(
            "network", {{"host", Network::kHost}, {"private", Network::kPrivate}}, config.network)},
       {"accelerators",
        reader.Choice<MissingAccelerators>("accelerators",
                                           {{"run-without", MissingAccelerators::kRunWithout},
                                            {"wait", MissingAccelerators::kWait}},
                                           config.accelerators)},
       {"images",
        [&](const YAML::Node& node) {
          return reader.Sequence(node, "images", [&](const YAML::Node& entry) {
            return ReadImage(reader, entry, config.images.emplace_back());
          });
        }},
       {"machine_types",
        [&](const YAML::Node& node) {
          return reader.Sequence(node, "machine_types", [&](const YAML::Node& entry) {
            return ReadMachineType(reader, entry, config.machine_types.emplace_back());
          });
        }},
       {"buckets", [&](const YAML::Node& node) { return ReadBuckets(reader, node, config); }},
       {"oversubscribe",
        reader.Number("oversubscribe", 1, [&](double v) { config.oversubscribe = v; })},
       {"cpus", reader.Number("cpus", 0.01, [&](double v) { config.cpus = v; })},
       {"memory_gb",
        reader.Number("memory_gb", 0.01, [&](double v) { config.memory_mb = int64_t(v * 1024); })},
       {"gpus", reader.Number("gpus", 0, [&](double v) { config.gpus = int(v); })},
       {"grace_period", reader.Period("grace_period", config.grace_period)},
       {"ports", [&](const YAML::Node& node) { return ReadPorts(reader, node, config.ports); }},
       {"mounts", reader.Choice<Isolation>("mounts", isolation, config.mounts)},
       {"memory_limits",
        reader.Choice<Isolation>("memory_limits", isolation, config.memory_limits)}});
}

}  // namespace

Result<Config> ParseConfig(std::string_view yaml, const std::string& origin) {
  Config config;
  try {
    const YAML::Node root = YAML::Load(std::string(yaml));
    if (root.IsNull()) return config;
    const Reader reader(origin);
    MUSTER_TRY(reader.NoDuplicates(root));
    MUSTER_TRY(ReadRoot(reader, root, config));
  } catch (const YAML::Exception& error) {
    return Fail(Code::kInvalidArgument, "{}:{}: {}", origin, error.mark.line + 1, error.msg);
  }
  return config;
}

Result<Config> LoadConfig(const std::filesystem::path& file) {
  MUSTER_ASSIGN(const std::string text, ReadFile(file));
  return ParseConfig(text, file.string());
}

}  // namespace muster::config
