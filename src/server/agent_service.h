// muster.v1.AgentService: the reports of replica agents.
#pragma once

namespace muster::control {
class JobControl;
}

namespace muster::server {

class MethodTable;

// `control` must outlive the table.
void AddAgentService(MethodTable& methods, control::JobControl& control);

}  // namespace muster::server
