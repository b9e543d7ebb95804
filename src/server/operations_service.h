// google.longrunning.Operations: GetOperation. Deletes are done when they are answered, so that
// nothing is to be listed, waited for or cancelled.
#pragma once

namespace muster::control {
class JobControl;
}

namespace muster::server {

class MethodTable;

// `control` must outlive the table.
void AddOperationsService(MethodTable& methods, control::JobControl& control);

}  // namespace muster::server
