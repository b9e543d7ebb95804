#include "http/event_stream.h"

namespace muster::http {

bool EventStreamParser::Feed(std::string_view piece, const OnEvent& on_event) {
  while (!piece.empty()) {
    if (after_return_ && piece.front() == '\n') piece.remove_prefix(1);
    after_return_ = false;
    const size_t end = piece.find_first_of("\r\n");
    line_.append(piece.substr(0, end));
    if (end == std::string_view::npos) return true;
    after_return_ = piece[end] == '\r';
    piece.remove_prefix(end + 1);
    if (!EndLine(on_event)) return false;
  }
  return true;
}

bool EventStreamParser::EndLine(const OnEvent& on_event) {
  std::string_view line = line_;
  if (std::exchange(first_line_, false) && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
  bool go_on = true;
  if (!line.empty()) {
    TakeField(line);
  } else {
    if (!event_.data.empty()) {
      event_.data.pop_back();  // the newline after its last line
      go_on = on_event(event_);
    }
    event_.event.clear();
    event_.data.clear();
  }
  line_.clear();
  return go_on;
}

void EventStreamParser::TakeField(std::string_view line) {
  const size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "data") {
    event_.data.append(value).push_back('\n');
  } else if (name == "event") {
    event_.event = value;
  } else if (name == "id" && value.find('\0') == std::string_view::npos) {
    event_.id = value;
  }
}

}  // namespace muster::http
