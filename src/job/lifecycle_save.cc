// Lifecycle ↔ JSON. Restore believes nothing: text of another version, or of no state that this
// machine can be in, is an error rather than a job that behaves oddly.
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "job/lifecycle.h"

namespace muster::job {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;
// Times and durations stay far from what would overflow when added: year ±36,000.
constexpr int64_t kMicrosMax = int64_t{1} << 60;
constexpr int64_t kSecondsMax = kMicrosMax / 1'000'000;

Json OptionalTime(const std::optional<Time>& time) { return time ? Json(ToMicros(*time)) : Json(); }

// Takes typed members out of an object; remembers whether all were there and nothing else is.
class Reader {
 public:
  explicit Reader(const Json& json) : json_(json), ok_(json.is_object()) {}

  const Json* Take(const char* key) {
    const auto found = ok_ ? json_.find(key) : json_.end();
    if (!ok_ || found == json_.end()) {
      ok_ = false;
      return nullptr;
    }
    ++taken_;
    return &*found;
  }

  bool TakeBool(const char* key) {
    const Json* value = Take(key);
    if (value == nullptr || !value->is_boolean()) return ok_ = false;
    return value->get<bool>();
  }

  int64_t TakeInt(const char* key, int64_t least, int64_t most) {
    return ToInt(Take(key), least, most);
  }

  std::optional<int64_t> TakeOptionalInt(const char* key, int64_t least, int64_t most) {
    const Json* value = Take(key);
    if (value == nullptr || value->is_null()) return std::nullopt;
    return ToInt(value, least, most);
  }

  std::string TakeString(const char* key) {
    const Json* value = Take(key);
    if (value == nullptr || !value->is_string()) {
      ok_ = false;
      return {};
    }
    return value->get<std::string>();
  }

  int64_t ToInt(const Json* value, int64_t least, int64_t most) {
    if (value == nullptr || !value->is_number_integer() ||
        (value->is_number_unsigned() &&
         value->get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()})) {
      ok_ = false;
      return least;
    }
    const auto number = value->get<int64_t>();
    if (number < least || number > most) {
      ok_ = false;
      return least;
    }
    return number;
  }

  bool ok() const { return ok_ && taken_ == json_.size(); }

 private:
  const Json& json_;
  bool ok_;
  size_t taken_ = 0;
};

std::optional<Time> ToTime(std::optional<int64_t> micros) {
  return micros ? std::optional(FromMicros(*micros)) : std::nullopt;
}

Json SaveRules(const SchedulingRules& rules) {
  return {{"timeout_s", rules.timeout.count()},
          {"disable_retries", rules.disable_retries},
          {"restart_job_on_worker_restart", rules.restart_job_on_worker_restart},
          {"max_wait_s", rules.max_wait ? Json(rules.max_wait->count()) : Json()}};
}

bool RestoreRules(const Json* json, SchedulingRules& rules) {
  if (json == nullptr) return false;
  Reader reader(*json);
  rules.timeout = std::chrono::seconds(reader.TakeInt("timeout_s", 0, kSecondsMax));
  rules.disable_retries = reader.TakeBool("disable_retries");
  rules.restart_job_on_worker_restart = reader.TakeBool("restart_job_on_worker_restart");
  if (const auto wait = reader.TakeOptionalInt("max_wait_s", 0, kSecondsMax)) {
    rules.max_wait = std::chrono::seconds(*wait);
  }
  return reader.ok();
}

Json SaveError(const std::optional<Error>& error) {
  if (!error) return {};
  return {{"code", static_cast<int>(error->code)}, {"message", error->message}};
}

bool RestoreError(const Json* json, std::optional<Error>& error) {
  if (json == nullptr) return false;
  if (json->is_null()) return true;
  Reader reader(*json);
  error = Error{static_cast<Code>(reader.TakeInt("code", 1, 16)), reader.TakeString("message")};
  return reader.ok();
}

// [pool, index, attempt, state, host_losses]: there may be a thousand, and every event saves them.
Json SaveReplicas(const std::map<ReplicaId, AttemptStatus>& replicas) {
  Json list = Json::array();
  for (const auto& [replica, status] : replicas) {
    list.push_back({replica.pool, replica.index, status.attempt, static_cast<int>(status.state),
                    status.host_losses});
  }
  return list;
}

bool RestoreReplicas(const Json* json, std::map<ReplicaId, AttemptStatus>& replicas) {
  constexpr int kAttemptMax = std::numeric_limits<int>::max() - 1;
  if (json == nullptr || !json->is_array()) return false;
  const Json none = Json::object();
  for (const Json& row : *json) {
    if (!row.is_array() || row.size() != 5) return false;
    Reader reader(none);
    const auto at = [&](size_t i, int64_t least, int64_t most) {
      return static_cast<int>(reader.ToInt(&row[i], least, most));
    };
    const ReplicaId replica{.pool = at(0, 0, 3), .index = at(1, 0, kReplicasMax - 1)};
    const AttemptStatus status{.attempt = at(2, -1, kAttemptMax),
                               .state = static_cast<AttemptState>(at(3, 0, 3)),
                               .host_losses = at(4, 0, kReplicaRestartsMax)};
    if (!reader.ok() || !replicas.emplace(replica, status).second) return false;
  }
  return true;
}

}  // namespace

std::string Lifecycle::Save() const {
  const Json json = {
      {"version", kVersion},
      {"state", static_cast<int>(state_)},
      {"created", ToMicros(created_)},
      {"admitted", OptionalTime(admitted_time_)},
      {"start", OptionalTime(start_time_)},
      {"end", OptionalTime(end_time_)},
      {"rules", SaveRules(rules_)},
      {"restarting", restarting_},
      {"job_restarts", job_restarts_},
      {"outcome", outcome_ ? Json(static_cast<int>(outcome_->state)) : Json()},
      {"error", outcome_ ? SaveError(outcome_->error) : Json()},
      {"replicas", SaveReplicas(replicas_)},
  };
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Lifecycle> Lifecycle::Restore(std::string_view saved) {
  const Json json = Json::parse(saved, nullptr, /*allow_exceptions=*/false);
  Reader reader(json);
  Lifecycle job;
  constexpr int64_t kLastState = static_cast<int64_t>(JobState::kCancelled);
  const int64_t version = reader.TakeInt("version", 0, std::numeric_limits<int>::max());
  job.state_ = static_cast<JobState>(reader.TakeInt("state", 1, kLastState));
  job.created_ = FromMicros(reader.TakeInt("created", -kMicrosMax, kMicrosMax));
  job.admitted_time_ = ToTime(reader.TakeOptionalInt("admitted", -kMicrosMax, kMicrosMax));
  job.start_time_ = ToTime(reader.TakeOptionalInt("start", -kMicrosMax, kMicrosMax));
  job.end_time_ = ToTime(reader.TakeOptionalInt("end", -kMicrosMax, kMicrosMax));
  const bool rules_ok = RestoreRules(reader.Take("rules"), job.rules_);
  job.restarting_ = reader.TakeBool("restarting");
  job.job_restarts_ = static_cast<int>(reader.TakeInt("job_restarts", 0, kJobRestartsMax));
  const auto outcome = reader.TakeOptionalInt("outcome", 1, kLastState);
  std::optional<Error> error;
  const bool error_ok = RestoreError(reader.Take("error"), error);
  const bool replicas_ok = RestoreReplicas(reader.Take("replicas"), job.replicas_);
  if (!reader.ok() || !rules_ok || !error_ok || !replicas_ok || version != kVersion) {
    return muster::Fail(Code::kInternal,
                        "the stored state of the job is not one of this version of Muster");
  }
  if (outcome) {
    job.outcome_ = Outcome{static_cast<JobState>(*outcome), std::move(error)};
    if (IsTerminal(job.state_)) job.error_ = job.outcome_->error;
  } else if (error) {
    return muster::Fail(Code::kInternal, "the stored state of the job has an error but no outcome");
  }
  if (const char* wrong = job.Inconsistency()) {
    return muster::Fail(Code::kInternal, "the stored state of the job makes no sense: {}", wrong);
  }
  return job;
}

const char* Lifecycle::Inconsistency() const {
  const auto count = [this](AttemptState state) {
    return std::ranges::count_if(
        replicas_, [state](const auto& entry) { return entry.second.state == state; });
  };
  const auto alive = count(AttemptState::kStarting) + count(AttemptState::kRunning);
  const auto stopping = count(AttemptState::kStopping);
  const auto never_started =
      std::ranges::count_if(replicas_, [](const auto& entry) { return entry.second.attempt < 0; });
  const auto all = static_cast<int64_t>(replicas_.size());

  if (!replicas_.contains({0, 0})) return "no primary replica";
  for (const auto& [replica, status] : replicas_) {
    if (status.attempt < 0 && status.state != AttemptState::kEnded) return "an attempt before any";
  }
  if (never_started != 0 && never_started != all) return "only some replicas were ever started";
  if (outcome_) {
    if (!IsTerminal(outcome_->state)) return "an outcome that is none";
    if (outcome_->error.has_value() != (outcome_->state != JobState::kSucceeded)) {
      return "an error without a failure, or the other way round";
    }
    if (alive != 0 || restarting_) return "replicas run though the outcome is decided";
    if (IsTerminal(state_) ? state_ != outcome_->state || stopping != 0 : stopping == 0) {
      return "replicas and outcome do not agree";
    }
  }
  if (IsTerminal(state_) != end_time_.has_value()) return "end time and state do not agree";
  switch (state_) {
    case JobState::kQueued:
      return never_started == all && !outcome_ && !restarting_ ? nullptr : "QUEUED, but started";
    case JobState::kPending:
    case JobState::kRunning: {
      if (never_started != 0) return "started, but without replicas";
      if (restarting_ && (alive != 0 || state_ != JobState::kPending)) return "half a restart";
      if ((stopping != 0) != (restarting_ || outcome_)) return "replicas are stopped for no reason";
      if (state_ == JobState::kRunning && !start_time_) return "RUNNING without a start time";
      return !outcome_ || outcome_->state != JobState::kCancelled ? nullptr : "not CANCELLING";
    }
    case JobState::kCancelling:
      return outcome_ && outcome_->state == JobState::kCancelled ? nullptr
                                                                 : "CANCELLING for nothing";
    case JobState::kSucceeded:
    case JobState::kFailed:
    case JobState::kCancelled:
      return outcome_ ? nullptr : "ended without an outcome";
  }
  return "no state";
}

}  // namespace muster::job
