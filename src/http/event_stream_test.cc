#include "http/event_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace muster::http {
namespace {

struct Seen {
  std::string id, event, data;
  bool operator==(const Seen&) const = default;
};

void PrintTo(const Seen& seen, std::ostream* out) {
  *out << "{" << seen.id << "|" << seen.event << "|" << seen.data << "}";
}

std::vector<Seen> Parse(const std::vector<std::string>& pieces) {
  EventStreamParser parser;
  std::vector<Seen> seen;
  for (const std::string& piece : pieces) {
    parser.Feed(piece, [&](const Client::ServerEvent& event) {
      seen.push_back({event.id, event.event, event.data});
      return true;
    });
  }
  return seen;
}

TEST(EventStream, FieldsAndDefaults) {
  EXPECT_THAT(
      Parse({"id: 7\nevent: state\ndata: a\ndata:b\ndata:  c\n\n: still here\n\ndata\n\n"
             "retry: 5\nevent: lost\n\ndata: d\n\nid: 8\ndata: unfinished\n"}),
      testing::ElementsAre(Seen{"7", "state", "a\nb\n c"}, Seen{"7", "", ""}, Seen{"7", "", "d"}));
}

TEST(EventStream, EveryLineEndAndByteOrderMark) {
  EXPECT_THAT(Parse({"\xEF\xBB\xBF"
                     "data: a\r\n\r\ndata: b\r\rdata: c\n\n"}),
              testing::ElementsAre(Seen{"", "", "a"}, Seen{"", "", "b"}, Seen{"", "", "c"}));
}

TEST(EventStream, StopsWhenToldTo) {
  EventStreamParser parser;
  int count = 0;
  EXPECT_FALSE(parser.Feed("data: a\n\ndata: b\n\n",
                           [&](const Client::ServerEvent&) { return ++count < 1; }));
  EXPECT_EQ(count, 1);
}

RC_GTEST_PROP(EventStream, PiecesDoNotMatter, ()) {
  const auto alphabet = rc::gen::element<std::string>("data: x", "data:", "id: 1", "event: e", "\n",
                                                      "\r\n", "\r", ":c", "\n\n");
  std::string text;
  for (const auto& token : *rc::gen::container<std::vector<std::string>>(alphabet)) text += token;
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size();) {
    const auto size = *rc::gen::inRange<size_t>(1, 6);
    pieces.push_back(text.substr(at, size));
    at += size;
  }
  RC_ASSERT(Parse({text}) == Parse(pieces));
}

}  // namespace
}  // namespace muster::http
