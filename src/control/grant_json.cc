#include "control/grant_json.h"

#include <nlohmann/json.hpp>

namespace muster::control {

using Json = nlohmann::json;

std::string GrantToJson(const engine::Grant& grant) {
  Json places = Json::array();
  for (const auto& [replica, place] : grant.places) {
    places.push_back({{"pool", replica.pool},
                      {"index", replica.index},
                      {"host", place.host},
                      {"port", place.port},
                      {"gpus", place.gpus}});
  }
  return Json{{"places", places},
              {"master_host", grant.master_host},
              {"master_port", grant.master_port},
              {"private_network", grant.private_network},
              {"warnings", grant.warnings}}
      .dump();
}

Result<engine::Grant> GrantFromJson(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    engine::Grant grant;
    for (const Json& place : json.at("places")) {
      grant.places[{place.at("pool"), place.at("index")}] = {
          place.at("host"), place.at("port"), place.at("gpus").get<std::vector<int>>()};
    }
    grant.master_host = json.at("master_host");
    grant.master_port = json.at("master_port");
    grant.private_network = json.at("private_network");
    grant.warnings = json.at("warnings").get<std::vector<std::string>>();
    return grant;
  } catch (const Json::exception& error) {
    return Fail(Code::kDataLoss, "a stored grant cannot be read: {}", error.what());
  }
}

}  // namespace muster::control
