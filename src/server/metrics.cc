#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace muster::server {
namespace {

// Seconds: from a read out of memory to a create that waits for a slow disk.
const prometheus::Histogram::BucketBoundaries kLatencyBounds = {
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};

std::string DoorName(Metrics::Door door) { return door == Metrics::Door::kGrpc ? "grpc" : "rest"; }

prometheus::MetricFamily GaugeFamily(std::string name, std::string help, int64_t value) {
  prometheus::ClientMetric metric;
  metric.gauge.value = static_cast<double>(value);
  return {std::move(name), std::move(help), prometheus::MetricType::Gauge, {metric}};
}

prometheus::MetricFamily CounterFamily(std::string name, std::string help, int64_t value) {
  prometheus::ClientMetric metric;
  metric.counter.value = static_cast<double>(value);
  return {std::move(name), std::move(help), prometheus::MetricType::Counter, {metric}};
}

}  // namespace

struct Metrics::Impl {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& calls =
      prometheus::BuildCounter()
          .Name("muster_api_calls_total")
          .Help("API calls answered, by door, method and canonical code.")
          .Register(registry);
  prometheus::Family<prometheus::Histogram>& latency =
      prometheus::BuildHistogram()
          .Name("muster_api_latency_seconds")
          .Help("From a call's whole request to its answer, by door and method.")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& connections =
      prometheus::BuildCounter()
          .Name("muster_connections_total")
          .Help("Connections by the door that took them.")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& refused =
      prometheus::BuildCounter()
          .Name("muster_connections_refused_total")
          .Help("Connections closed before a door took them, by reason.")
          .Register(registry);
  prometheus::Gauge& log_readers = prometheus::BuildGauge()
                                       .Name("muster_log_readers")
                                       .Help("Live log streams.")
                                       .Register(registry)
                                       .Add({});
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

void Metrics::CountCall(Door door, std::string_view method, Code code,
                        std::chrono::nanoseconds latency) {
  const std::string name(method.empty() ? "none" : method);
  impl_->calls
      .Add({{"door", DoorName(door)}, {"method", name}, {"code", std::string(CodeName(code))}})
      .Increment();
  impl_->latency.Add({{"door", DoorName(door)}, {"method", name}}, kLatencyBounds)
      .Observe(std::chrono::duration<double>(latency).count());
}

void Metrics::CountConnection(Door door) {
  impl_->connections.Add({{"door", DoorName(door)}}).Increment();
}

void Metrics::CountRefused(std::string_view why) {
  impl_->refused.Add({{"reason", std::string(why)}}).Increment();
}

void Metrics::AddLogReaders(int change) { impl_->log_readers.Increment(change); }

std::string Metrics::Text(const control::JobControl::Counts& counts) const {
  std::vector<prometheus::MetricFamily> families = impl_->registry.Collect();
  families.push_back(
      GaugeFamily("muster_jobs_waiting", "Jobs that wait for resources.", counts.jobs_waiting));
  families.push_back(
      GaugeFamily("muster_jobs_active", "Jobs admitted and not ended.", counts.jobs_active));
  families.push_back(
      GaugeFamily("muster_replicas_running", "Replicas that run.", counts.replicas_running));
  families.push_back(
      CounterFamily("muster_jobs_created_total", "Jobs created.", counts.jobs_created));
  families.push_back(CounterFamily("muster_jobs_succeeded_total",
                                   "Jobs that succeeded since the start of this process.",
                                   counts.jobs_succeeded));
  families.push_back(CounterFamily("muster_jobs_failed_total",
                                   "Jobs that failed since the start of this process.",
                                   counts.jobs_failed));
  families.push_back(CounterFamily("muster_jobs_cancelled_total",
                                   "Jobs that were cancelled since the start of this process.",
                                   counts.jobs_cancelled));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace muster::server
