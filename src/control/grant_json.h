// The engine's grant as the store keeps it.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "engine/engine.h"

namespace muster::control {

std::string GrantToJson(const engine::Grant& grant);
Result<engine::Grant> GrantFromJson(std::string_view text);

}  // namespace muster::control
