// google.cloud.aiplatform.v1.JobService: the methods of custom jobs.
#pragma once

namespace muster::control {
class JobControl;
}

namespace muster::server {

class MethodTable;

// `control` must outlive the table.
void AddJobService(MethodTable& methods, control::JobControl& control);

}  // namespace muster::server
