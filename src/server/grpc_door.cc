#include "server/grpc_door.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/proto_buffer_writer.h>

#include <atomic>

#include "base/log.h"
#include "base/utf8.h"
#include "server/call.h"

namespace muster::server {
namespace {

// "/google.cloud.aiplatform.v1beta1.JobService/GetCustomJob" → the table's name. The beta's
// messages are those of v1 with fields added.
std::string TableName(std::string_view path) {
  if (path.starts_with('/')) path.remove_prefix(1);
  constexpr std::string_view kBeta = "google.cloud.aiplatform.v1beta1.";
  if (path.starts_with(kBeta)) {
    return fmt::format("google.cloud.aiplatform.v1.{}", path.substr(kBeta.size()));
  }
  return std::string(path);
}

// "ipv4:127.0.0.1:41234" → "127.0.0.1:41234"
std::string PeerName(const std::string& peer) { return peer.substr(peer.find(':') + 1); }

grpc::Status ToGrpc(const Error& error) {
  return {static_cast<grpc::StatusCode>(error.code), ToValidUtf8(error.message)};
}

// One call: reads one message, has a worker handle it, answers. Deletes itself when gRPC is done
// with it, which is not before Finish: so a worker may use it until then, whatever the client does.
class Call final : public grpc::ServerGenericBidiReactor {
 public:
  Call(const GrpcDoor::Parts& parts, grpc::GenericCallbackServerContext* context)
      : parts_(parts),
        context_(context),
        name_(TableName(context->method())),
        method_(parts.methods.Find(name_)),
        start_(std::chrono::steady_clock::now()) {
    if (method_ == nullptr) {
      Reject(Unimplemented(name_));
    } else {
      StartRead(&bytes_);
    }
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      Reject({Code::kInvalidArgument, "The call ended before its request message"});
      return;
    }
    if (!parts_.workers.Post([this] { Handle(); })) {
      Reject(
          {Code::kUnavailable, "The server is busy with other requests; try again in a moment."});
    }
  }

  void OnCancel() override { cancelled_ = true; }
  void OnDone() override { delete this; }

 private:
  // On a worker thread.
  void Handle() {
    if (cancelled_) {
      Reject({Code::kCancelled, "The caller gave up"});
      return;
    }
    const MessagePtr request(google::protobuf::MessageFactory::generated_factory()
                                 ->GetPrototype(method_->request)
                                 ->New());
    {
      grpc::ProtoBufferReader reader(&bytes_);
      if (!reader.status().ok() || !request->ParseFromZeroCopyStream(&reader)) {
        Reject({Code::kInvalidArgument,
                fmt::format("The request is no valid message of type {}", request->GetTypeName())});
        return;
      }
    }
    bytes_.Clear();
    const auto response = RunCall(*method_, *request, {name_, PeerName(context_->peer())});
    if (!response) {
      Reject(response.error());
      return;
    }
    if (!Serialize(**response)) {
      Reject({Code::kInternal, "The answer could not be written"});
      return;
    }
    Count(Code::kOk);
    StartWriteAndFinish(&bytes_, grpc::WriteOptions(), grpc::Status::OK);
  }

  bool Serialize(const google::protobuf::Message& response) {
    constexpr int kBlockBytes = 64 << 10;
    grpc::ProtoBufferWriter writer(&bytes_, kBlockBytes, static_cast<int>(response.ByteSizeLong()));
    return response.SerializeToZeroCopyStream(&writer);
  }

  void Reject(const Error& error) {
    Count(error.code);
    Finish(ToGrpc(error));
  }

  void Count(Code code) {
    parts_.metrics.CountCall(Metrics::Door::kGrpc, method_ == nullptr ? "" : name_, code,
                             std::chrono::steady_clock::now() - start_);
  }

  const GrpcDoor::Parts& parts_;
  grpc::GenericCallbackServerContext* const context_;
  const std::string name_;
  const Method* const method_;
  const std::chrono::steady_clock::time_point start_;
  grpc::ByteBuffer bytes_;  // the request, then the answer
  std::atomic<bool> cancelled_ = false;
};

class Service final : public grpc::CallbackGenericService {
 public:
  explicit Service(const GrpcDoor::Parts& parts) : parts_(parts) {}
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new Call(parts_, context);
  }

 private:
  const GrpcDoor::Parts parts_;
};

}  // namespace

struct GrpcDoor::Impl {
  explicit Impl(const Parts& parts) : metrics(parts.metrics), service(parts) {}

  Metrics& metrics;
  Service service;
  Mutex mutex;
  bool open GUARDED_BY(mutex) = true;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor GUARDED_BY(mutex);
  std::unique_ptr<grpc::Server> server;
};

GrpcDoor::GrpcDoor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

GrpcDoor::~GrpcDoor() { Shutdown(std::chrono::milliseconds(0)); }

Result<std::unique_ptr<GrpcDoor>> GrpcDoor::Start(const Parts& parts) {
  auto impl = std::make_unique<Impl>(parts);
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(&impl->service);
  builder.SetMaxReceiveMessageSize(kMessageBytesMax);
  // Clients may keep idle connections alive with a ping every 10 s.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1000);
  {
    MutexLock lock(impl->mutex);
    impl->acceptor = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        grpc::InsecureServerCredentials());
  }
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr) return Fail(Code::kInternal, "the gRPC server did not start");
  return std::unique_ptr<GrpcDoor>(new GrpcDoor(std::move(impl)));
}

void GrpcDoor::Take(UniqueFd connection) {
  // The lock keeps the server from shutting down in between: it would not close the descriptor.
  MutexLock lock(impl_->mutex);
  if (!impl_->open) return;
  impl_->metrics.CountConnection(Metrics::Door::kGrpc);
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
  parameters.fd = connection.Release();
  impl_->acceptor->HandleNewConnection(&parameters);
}

void GrpcDoor::Shutdown(std::chrono::milliseconds deadline) {
  {
    MutexLock lock(impl_->mutex);
    if (!impl_->open) return;
    impl_->open = false;
  }
  impl_->server->Shutdown(std::chrono::system_clock::now() + deadline);
}

}  // namespace muster::server
