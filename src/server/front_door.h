// The one port. Looks at a connection's first bytes without taking them, and hands the socket on:
//
//   PRI * HTTP/2    gRPC in the clear
//   0x16            TLS (a handshake record)
//   anything else   HTTP/1.1
//
// The bytes may come one at a time. A connection that says too little within the deadline is
// closed; so is the one that has been silent longest, when too many are silent at once.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/fd.h"

namespace boost::asio {
class io_context;
}

namespace muster::server {

enum class Protocol { kUndecided, kGrpc, kTls, kHttp };

// By the first bytes of a connection, as many as have come.
Protocol ProtocolOf(std::string_view first_bytes);

// Lives on the loop: created before it runs, closed on it, destroyed after it has stopped.
class FrontDoor {
 public:
  struct Options {
    std::string listen = "127.0.0.1:0";  // port 0: the system chooses one
    std::chrono::milliseconds decide_timeout{10'000};
    size_t undecided_max = 1024;
    // Each takes the connection: a non-blocking socket that nothing was read from. Called on the
    // loop. Without a taker for TLS such connections are closed.
    std::function<void(UniqueFd)> take_grpc;
    std::function<void(UniqueFd)> take_http;
    std::function<void(UniqueFd)> take_tls;
    // Told of a connection that was closed undecided: "silent", "crowded", "tls".
    std::function<void(std::string_view why)> refused;
  };

  // Binds and listens. INVALID_ARGUMENT for a bad address; UNAVAILABLE and others name the address.
  static Result<std::unique_ptr<FrontDoor>> Open(boost::asio::io_context& loop, Options options);
  ~FrontDoor();

  // "127.0.0.1:41234", with the real port.
  const std::string& address() const;

  // Takes no more connections and closes the undecided ones.
  void Close();

 private:
  struct Impl;
  explicit FrontDoor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::server
