// Small steps between Muster's own types and the API's messages.
#pragma once

#include <google/cloud/aiplatform/v1/custom_job.pb.h>
#include <google/protobuf/timestamp.pb.h>
#include <google/protobuf/util/time_util.h>

#include "base/time.h"
#include "job/types.h"

namespace muster::control {

inline google::protobuf::Timestamp ToTimestamp(Time time) {
  return google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(ToMicros(time));
}

// The job's state is final.
inline bool HasEnded(const google::cloud::aiplatform::v1::CustomJob& job) {
  return job::IsTerminal(static_cast<job::JobState>(static_cast<int>(job.state())));
}

}  // namespace muster::control
