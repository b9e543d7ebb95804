// The text format of server-sent events, as it comes in pieces.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "http/client.h"

namespace muster::http {

class EventStreamParser {
 public:
  using OnEvent = std::function<bool(const Client::ServerEvent&)>;

  // Calls `on_event` for each event that `piece` completes. False once `on_event` said so.
  // Lines end with \n, \r\n or \r; comments and unknown fields are dropped; an event without data
  // is none; an id stays until the next one.
  bool Feed(std::string_view piece, const OnEvent& on_event);

  // What is held of an unfinished event, so that the caller can bound it.
  size_t pending_bytes() const { return line_.size() + event_.data.size(); }

 private:
  bool EndLine(const OnEvent& on_event);
  void TakeField(std::string_view line);

  std::string line_;
  Client::ServerEvent event_;
  bool after_return_ = false;  // a \n now belongs to the line end before it
  bool first_line_ = true;
};

}  // namespace muster::http
