#include "cli/fake_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>

#include "base/check.h"

namespace muster::cli {
namespace {

// Reads until `text` holds a whole request; false if the peer closes before.
bool ReadRequest(int fd, std::string& text, size_t& head_size) {
  char piece[4096];
  while (true) {
    head_size = text.find("\r\n\r\n");
    if (head_size != std::string::npos) {
      head_size += 4;
      size_t length = 0;
      if (const size_t at = text.find("Content-Length: "); at < head_size) {
        std::from_chars(text.data() + at + 16, text.data() + head_size, length);
      }
      if (text.size() >= head_size + length) return true;
    }
    const ssize_t got = ::recv(fd, piece, sizeof piece, 0);
    if (got <= 0) return false;
    text.append(piece, got);
  }
}

std::string HeaderOf(std::string_view head, std::string_view name) {
  const size_t at = head.find(fmt::format("\r\n{}: ", name));
  if (at == std::string_view::npos) return "";
  head.remove_prefix(at + name.size() + 4);
  return std::string(head.substr(0, head.find("\r\n")));
}

}  // namespace

void FakeAnswer::Raw(std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    text.remove_prefix(sent);
  }
}

void FakeAnswer::Json(const nlohmann::json& body, int status) {
  const std::string text = body.dump();
  Raw(
      fmt::format("HTTP/1.1 {} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
                  "Connection: close\r\n\r\n{}",
                  status, text.size(), text));
}

void FakeAnswer::Text(std::string_view body) {
  Raw(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                  body.size(), body));
}

void FakeAnswer::Error(int status, std::string_view name, std::string_view message) {
  Json({{"error",
         {{"code", status},
          {"message", message},
          {"status", name},
          {"details", nlohmann::json::array()}}}},
       status);
}

void FakeAnswer::BeginStream() {
  Raw("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n");
}

void FakeAnswer::LogEvent(std::string_view id, const nlohmann::json& entry) {
  Raw(fmt::format("id: {}\nevent: log\ndata: {}\n\n", id, entry.dump()));
}

FakeServer::FakeServer(Handler handler)
    : handler_(std::move(handler)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  MUSTER_CHECK(::bind(listener_.get(), generic, sizeof address) == 0);
  MUSTER_CHECK(::listen(listener_.get(), 16) == 0);
  MUSTER_CHECK(::getsockname(listener_.get(), generic, &size) == 0);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Accept(); });
}

FakeServer::~FakeServer() {
  stopping_ = true;
  ::shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  std::vector<std::thread> threads;
  {
    MutexLock lock(mutex_);
    for (const int fd : connections_) ::shutdown(fd, SHUT_RDWR);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

std::string FakeServer::address() const { return fmt::format("127.0.0.1:{}", port_); }

std::vector<FakeRequest> FakeServer::requests() const {
  MutexLock lock(mutex_);
  return requests_;
}

void FakeServer::Accept() {
  while (true) {
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    MutexLock lock(mutex_);
    connections_.push_back(fd);
    threads_.emplace_back([this, fd] { Serve(fd); });
  }
}

void FakeServer::Serve(int fd) {
  std::string text;
  size_t head_size = 0;
  if (ReadRequest(fd, text, head_size)) {
    const std::string_view head = std::string_view(text).substr(0, head_size);
    FakeRequest request;
    request.method = head.substr(0, head.find(' '));
    const std::string_view rest = head.substr(request.method.size() + 1);
    request.target = rest.substr(0, rest.find(' '));
    request.last_event_id = HeaderOf(head, "Last-Event-ID");
    request.body = text.substr(head_size);
    {
      MutexLock lock(mutex_);
      requests_.push_back(request);
    }
    FakeAnswer answer(fd);
    handler_(request, answer);
  }
  MutexLock lock(mutex_);
  std::erase(connections_, fd);
  ::close(fd);
}

}  // namespace muster::cli
