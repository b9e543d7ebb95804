#include "job/plan.h"

#include <google/cloud/aiplatform/v1/custom_job.pb.h>

namespace muster::job {
namespace {

namespace aip = google::cloud::aiplatform::v1;

constexpr std::chrono::seconds kDefaultMaxWait = std::chrono::hours(24);  // with FLEX_START
constexpr int kPoolsMax = 4;

template <typename Repeated>
std::vector<std::string> Strings(const Repeated& texts) {
  return {texts.begin(), texts.end()};
}

template <typename Repeated>
EnvironmentList Environment(const Repeated& variables) {
  EnvironmentList list;
  list.reserve(static_cast<size_t>(variables.size()));
  for (const aip::EnvVar& variable : variables)
    list.emplace_back(variable.name(), variable.value());
  return list;
}

// Whole seconds, rounded up: half a second of patience is not none.
std::chrono::seconds CeilSeconds(const google::protobuf::Duration& duration) {
  return std::chrono::seconds(duration.seconds() + (duration.nanos() > 0 ? 1 : 0));
}

Role RoleOf(int pool, std::string_view image_uri) {
  switch (pool) {
    case 0:
      return Role::kPrimary;
    case 1:
      return Role::kWorker;
    case 2:
      return IsReductionServerImage(image_uri) ? Role::kReducer : Role::kParameterServer;
    default:
      return Role::kEvaluator;
  }
}

Result<MachineType> MachineOf(const aip::MachineSpec& spec, const MachineCatalog& machines,
                              int pool) {
  const MachineType* type = machines.Find(spec.machine_type());
  if (type == nullptr) {
    return Fail(Code::kInvalidArgument,
                "job_spec.worker_pool_specs[{}].machine_spec.machine_type: machine type \"{}\" is "
                "not known here",
                pool, spec.machine_type());
  }
  MachineType machine = *type;
  // The one machine whose network grows with what is attached to it.
  if (machine.name == "n1-highmem-96" && spec.accelerator_type() == aip::NVIDIA_TESLA_V100 &&
      spec.accelerator_count() == 8) {
    machine.egress_mbps = 100'000;
  }
  return machine;
}

Result<PoolPlan> MakePool(const aip::WorkerPoolSpec& spec, int pool,
                          const MachineCatalog& machines) {
  if (spec.replica_count() > kReplicasMax) {
    return Fail(Code::kInvalidArgument,
                "job_spec.worker_pool_specs[{}].replica_count: more than {} replicas", pool,
                kReplicasMax);
  }
  PoolPlan plan;
  plan.pool = pool;
  plan.replica_count = static_cast<int>(spec.replica_count());
  MUSTER_ASSIGN(plan.machine, MachineOf(spec.machine_spec(), machines, pool));
  if (spec.machine_spec().accelerator_count() > 0) {
    plan.accelerator_type = aip::AcceleratorType_Name(spec.machine_spec().accelerator_type());
    plan.accelerator_count = spec.machine_spec().accelerator_count();
  } else {
    plan.accelerator_type = plan.machine.accelerator_type;
    plan.accelerator_count = plan.machine.accelerator_count;
  }
  switch (spec.task_case()) {
    case aip::WorkerPoolSpec::kContainerSpec: {
      const aip::ContainerSpec& container = spec.container_spec();
      plan.task = ContainerTask{.image_uri = container.image_uri(),
                                .command = Strings(container.command()),
                                .args = Strings(container.args())};
      plan.env = Environment(container.env());
      break;
    }
    case aip::WorkerPoolSpec::kPythonPackageSpec: {
      const aip::PythonPackageSpec& package = spec.python_package_spec();
      plan.task = PythonPackageTask{.executor_image_uri = package.executor_image_uri(),
                                    .package_uris = Strings(package.package_uris()),
                                    .python_module = package.python_module(),
                                    .args = Strings(package.args())};
      plan.env = Environment(package.env());
      break;
    }
    case aip::WorkerPoolSpec::TASK_NOT_SET:
      return Fail(Code::kInvalidArgument,
                  "job_spec.worker_pool_specs[{}]: neither container_spec nor python_package_spec "
                  "is set",
                  pool);
  }
  plan.role = RoleOf(pool, plan.image_uri());
  return plan;
}

SchedulingRules MakeRules(const aip::Scheduling& spec) {
  SchedulingRules rules;
  if (const auto timeout = CeilSeconds(spec.timeout()); timeout.count() > 0) {
    rules.timeout = timeout;
  }
  rules.disable_retries = spec.disable_retries();
  rules.restart_job_on_worker_restart =
      spec.restart_job_on_worker_restart() && !spec.disable_retries();
  if (spec.strategy() == aip::Scheduling::FLEX_START) {
    rules.max_wait =
        spec.has_max_wait_duration() ? CeilSeconds(spec.max_wait_duration()) : kDefaultMaxWait;
  }
  return rules;
}

}  // namespace

const std::string& PoolPlan::image_uri() const {
  if (const auto* container = std::get_if<ContainerTask>(&task)) return container->image_uri;
  return std::get<PythonPackageTask>(task).executor_image_uri;
}

std::vector<ReplicaId> JobPlan::Replicas() const {
  std::vector<ReplicaId> replicas;
  for (const PoolPlan& pool : pools) {
    for (int index = 0; index < pool.replica_count; ++index) {
      replicas.push_back({pool.pool, index});
    }
  }
  return replicas;
}

const PoolPlan* JobPlan::FindPool(int pool) const {
  for (const PoolPlan& candidate : pools) {
    if (candidate.pool == pool) return &candidate;
  }
  return nullptr;
}

bool JobPlan::IsDistributed() const {
  int replicas = 0;
  for (const PoolPlan& pool : pools) replicas += pool.replica_count;
  return replicas > 1;
}

Result<JobPlan> MakePlan(const aip::CustomJobSpec& spec, const MachineCatalog& machines) {
  if (spec.worker_pool_specs_size() > kPoolsMax) {
    return Fail(Code::kInvalidArgument, "job_spec.worker_pool_specs: more than {} worker pools",
                kPoolsMax);
  }
  JobPlan plan;
  for (int pool = 0; pool < spec.worker_pool_specs_size(); ++pool) {
    if (spec.worker_pool_specs(pool).replica_count() <= 0) continue;  // skipped
    MUSTER_ASSIGN(PoolPlan pool_plan, MakePool(spec.worker_pool_specs(pool), pool, machines));
    plan.pools.push_back(std::move(pool_plan));
  }
  if (plan.pools.empty() || plan.pools[0].pool != 0 || plan.pools[0].replica_count != 1) {
    return Fail(Code::kInvalidArgument,
                "job_spec.worker_pool_specs[0].replica_count: the primary worker pool must have "
                "exactly 1 replica");
  }
  plan.scheduling = MakeRules(spec.scheduling());
  plan.base_output_directory = spec.base_output_directory().output_uri_prefix();
  while (plan.base_output_directory.ends_with('/')) plan.base_output_directory.pop_back();
  plan.tensorboard = spec.tensorboard();
  plan.enable_web_access = spec.enable_web_access();
  return plan;
}

bool IsReductionServerImage(std::string_view image_uri) {
  for (const std::string_view continent : {"us", "europe", "asia"}) {
    std::string_view rest = image_uri;
    if (!rest.starts_with(continent)) continue;
    rest.remove_prefix(continent.size());
    constexpr std::string_view kPath =
        "-docker.pkg.dev/vertex-ai-restricted/training/reductionserver";
    if (!rest.starts_with(kPath)) continue;
    rest.remove_prefix(kPath.size());
    return rest.empty() || rest.front() == ':' || rest.front() == '@';
  }
  return false;
}

bool IsPrebuiltImage(std::string_view image_uri) {
  return image_uri.find("docker.pkg.dev/vertex-ai/") != std::string_view::npos ||
         image_uri.find("gcr.io/cloud-aiplatform/") != std::string_view::npos;
}

}  // namespace muster::job
