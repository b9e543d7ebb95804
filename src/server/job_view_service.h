// muster.v1.JobViewService: what Muster knows of a job beyond the official API, and its logs as
// pages.
#pragma once

namespace muster::control {
class JobControl;
}

namespace muster::server {

class MethodTable;

// `control` must outlive the table.
void AddJobViewService(MethodTable& methods, control::JobControl& control);

}  // namespace muster::server
