// A blocking HTTP/1.1 client over a bare socket, for the server's tests: sends any bytes it is told
// to. Every wait ends after kTestTimeout.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <map>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/fd.h"

namespace muster::server {

inline constexpr std::chrono::seconds kTestTimeout{20};

struct TestResponse {
  int status = 0;                              // 0: the connection ended before a whole response
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

class TestClient {
 public:
  // `address`: "127.0.0.1:41234"
  explicit TestClient(const std::string& address)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    const size_t colon = address.find(':');
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
    MUSTER_CHECK(inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr) == 1);
    const timeval limit{kTestTimeout.count(), 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    connected_ = connect(fd_.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }

  bool connected() const { return connected_; }

  // False if the server closed the connection meanwhile.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  void CloseWriting() { shutdown(fd_.get(), SHUT_WR); }
  void Close() { fd_.Reset(); }

  static std::string Format(std::string_view method, std::string_view target,
                            std::string_view body = "", std::string_view headers = "") {
    std::string text = std::string(method) + " " + std::string(target) +
                       " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + std::string(headers);
    if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    return text + "\r\n" + std::string(body);
  }

  TestResponse Call(std::string_view method, std::string_view target, std::string_view body = "",
                    std::string_view headers = "") {
    if (!Send(Format(method, target, body, headers))) return {};
    return Receive(method == "HEAD");
  }

  TestResponse Receive(bool head = false) {
    TestResponse response;
    if (!ReceiveHeader(response)) return {};
    if (head || response.status == 204 || response.status == 100) return response;
    const size_t length = std::stoul(response.headers["content-length"]);
    while (buffer_.size() < length) {
      if (!ReadSome()) return {};
    }
    response.body = buffer_.substr(0, length);
    buffer_.erase(0, length);
    return response;
  }

  bool ReceiveHeader(TestResponse& response) {
    size_t end = 0;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!ReadSome()) return false;
    }
    std::string header = buffer_.substr(0, end + 2);
    buffer_.erase(0, end + 4);
    response.status = std::stoi(header.substr(header.find(' ') + 1));
    size_t line = header.find("\r\n") + 2;
    while (line < header.size()) {
      const size_t colon = header.find(": ", line);
      const size_t line_end = header.find("\r\n", line);
      std::string name = header.substr(line, colon - line);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      response.headers[name] = header.substr(colon + 2, line_end - colon - 2);
      line = line_end + 2;
    }
    return true;
  }

  // The next chunk of a chunked body; empty at its end or the connection's.
  std::string ReceiveChunk() {
    size_t end = 0;
    while ((end = buffer_.find("\r\n")) == std::string::npos) {
      if (!ReadSome()) return "";
    }
    const size_t size = std::stoul(buffer_.substr(0, end), nullptr, 16);
    while (buffer_.size() < end + 2 + size + 2) {
      if (!ReadSome()) return "";
    }
    std::string chunk = buffer_.substr(end + 2, size);
    buffer_.erase(0, end + 2 + size + 2);
    return chunk;
  }

  // Whether the server closes the connection (in time), dropping what it still sends.
  bool ServerCloses() {
    char bytes[4096];
    while (true) {
      const ssize_t size = recv(fd_.get(), bytes, sizeof bytes, 0);
      if (size == 0) return true;
      if (size < 0) return errno == ECONNRESET;
    }
  }

  const std::string& unread() const { return buffer_; }

  bool ReadSome() {
    char bytes[64 << 10];
    const ssize_t size = recv(fd_.get(), bytes, sizeof bytes, 0);
    if (size <= 0) return false;
    buffer_.append(bytes, static_cast<size_t>(size));
    return true;
  }

 private:
  UniqueFd fd_;
  bool connected_ = false;
  std::string buffer_;
};

}  // namespace muster::server
