// SPDX-License-Identifier: Apache-2.0
#include "server.hpp"

#include "../error.hpp"

#ifdef WEIR_HAVE_PROMETHEUS

#include "core/metrics/text.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>

#include <cstdio>
#include <exception>
#include <utility>

namespace weir::tool::exporter {
namespace {

double value_of(const metrics::Number &number) noexcept {
  return static_cast<double>(number.whole) + static_cast<double>(number.nano) / 1e9;
}

/// Makes prometheus-cpp's families of what is told.
class FamilySink final : public metrics::Sink {
 public:
  void family(const metrics::Family &family) override {
    prometheus::MetricFamily &made = families_.emplace_back();
    made.name = family.name;
    made.help = family.help;
    made.type = family.type == metrics::Type::counter ? prometheus::MetricType::Counter
                : family.type == metrics::Type::gauge ? prometheus::MetricType::Gauge
                                                      : prometheus::MetricType::Histogram;
  }
  void value(const metrics::Labels &labels, const metrics::Number &number) override {
    prometheus::ClientMetric &metric = add(labels);
    if (families_.back().type == prometheus::MetricType::Counter) {
      metric.counter.value = value_of(number);
    } else {
      metric.gauge.value = value_of(number);
    }
  }
  void histogram(const metrics::Labels &labels, const metrics::Histogram &of) override {
    prometheus::ClientMetric::Histogram &made = add(labels).histogram;
    for (size_t bucket = 0; bucket < of.counts.size(); ++bucket) {
      made.sample_count += of.counts[bucket];
      made.bucket.push_back({made.sample_count, metrics::bound_of(bucket)});
    }
    made.sample_sum = value_of(metrics::Number::of_ns(of.sum_ns));
  }

  std::vector<prometheus::MetricFamily> take() {
    std::erase_if(families_, [](const auto &family) { return family.metric.empty(); });
    return std::move(families_);
  }

 private:
  prometheus::ClientMetric &add(const metrics::Labels &labels) {
    prometheus::ClientMetric &metric = families_.back().metric.emplace_back();
    for (const metrics::Label &label : labels)
      metric.label.push_back({std::string(label.name), label.value});
    return metric;
  }
  std::vector<prometheus::MetricFamily> families_;
};

/// The server says no more than that it could not: the system is asked.
std::string why_not(const Listen &listen) {
  sockaddr_storage address{};
  socklen_t size = sizeof(sockaddr_in);
  if (listen.v6) {
    auto &v6 = reinterpret_cast<sockaddr_in6 &>(address);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(listen.port);
    (void)inet_pton(AF_INET6, listen.address.c_str(), &v6.sin6_addr);
    size = sizeof v6;
  } else {
    auto &v4 = reinterpret_cast<sockaddr_in &>(address);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(listen.port);
    (void)inet_pton(AF_INET, listen.address.c_str(), &v4.sin_addr);
  }
  const int file = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int error = file < 0 ? errno : 0;
  if (file >= 0 && bind(file, reinterpret_cast<const sockaddr *>(&address), size) != 0)
    error = errno;
  if (file >= 0) (void)close(file);
  if (error != 0) return strerrordesc_np(error);
  return listen.v6
             ? "the HTTP library that this weir was built with has no IPv6; take an IPv4 address"
             : "the HTTP library refuses it";
}

class Collectable final : public prometheus::Collectable {
 public:
  explicit Collectable(std::shared_ptr<Collector> of) : of_(std::move(of)) {}
  /// Called by the server, which knows no exceptions.
  std::vector<prometheus::MetricFamily> Collect() const override {
    try {
      FamilySink sink;
      of_->tell(sink);
      return sink.take();
    } catch (const std::exception &error) {
      std::fprintf(stderr, "weir exporter: nothing is told this time: %s\n", error.what());
      return {};
    }
  }

 private:
  const std::shared_ptr<Collector> of_;
};

}  // namespace

struct Server::Parts {
  std::shared_ptr<Collectable> collectable;
  std::unique_ptr<prometheus::Exposer> exposer;
};

Server::Server(const Listen &listen, std::optional<AuthFile> auth,
               std::shared_ptr<Collector> collector)
    : parts_(std::make_unique<Parts>()) {
  parts_->collectable = std::make_shared<Collectable>(std::move(collector));
  try {
    // A client that connects and says nothing is put off after a while: there are four threads.
    parts_->exposer = std::make_unique<prometheus::Exposer>(std::vector<std::string>{
        "listening_ports", listen.text(), "num_threads", "4", "request_timeout_ms", "5000"});
  } catch (const std::exception &) {
    throw ToolError("--listen: can't listen on " + listen.text() + ": " + why_not(listen));
  }
  if (auth.has_value())
    parts_->exposer->RegisterAuth(
        [accounts = std::move(*auth)](const std::string &user, const std::string &password) {
          return accounts.allows(user, password);
        },
        "weir exporter");
  parts_->exposer->RegisterCollectable(parts_->collectable);
}

Server::~Server() = default;

uint16_t Server::port() const noexcept {
  const std::vector<int> ports = parts_->exposer->GetListeningPorts();
  return ports.empty() ? 0 : static_cast<uint16_t>(ports.front());
}

}  // namespace weir::tool::exporter

#else

namespace weir::tool::exporter {

struct Server::Parts {};

Server::Server(const Listen &, std::optional<AuthFile>, std::shared_ptr<Collector>) {
  throw ToolError(
      "this weir was built without prometheus-cpp and can't serve metrics (Debian: "
      "prometheus-cpp-dev); weir exporter --once prints them");
}
Server::~Server() = default;
uint16_t Server::port() const noexcept { return 0; }

}  // namespace weir::tool::exporter

#endif
