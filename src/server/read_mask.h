// Partial answers (AIP-157). A request with a field `read_mask` gets only the fields it names:
//
//   of a resource          displayName,jobSpec.workerPoolSpecs.machineSpec
//   of a list's resources  the same paths, or with the list's own name before them: customJobs.name
//
// A path goes through repeated fields to their elements; a map comes whole. No mask, or "*": all.
#pragma once

#include <google/protobuf/message.h>

#include "base/error.h"

namespace muster::server {

// INVALID_ARGUMENT names the first path that the method's answer does not have.
Status CheckReadMask(const google::protobuf::Message& request,
                     const google::protobuf::Descriptor& response);

// The request's mask passed CheckReadMask.
void ApplyReadMask(const google::protobuf::Message& request, google::protobuf::Message& response);

}  // namespace muster::server
