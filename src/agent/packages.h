// pythonPackageSpec: the job's own packages, in an environment on top of the image's.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "agent/child.h"

namespace muster::v1 {
class PythonPackages;
}

namespace muster::agent {

// install_packages.py, run by the image's interpreter.
Program PackageInstaller(const muster::v1::PythonPackages& packages,
                         std::vector<std::string> environment, const std::string& directory);

// Makes "python" and "python3", and the interpreter's own path, the environment's.
void UseEnvironment(const muster::v1::PythonPackages& packages, Program& program);

}  // namespace muster::agent
