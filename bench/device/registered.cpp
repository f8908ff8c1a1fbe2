// SPDX-License-Identifier: Apache-2.0
//
// Host memory that the pool's HOST tier is made of (a memfd, mapped and registered) against what the runtime itself pins:
// copies both ways, and how long it takes to register, to touch or to allocate a GiB. On huge pages too, where they may be had. And
// what it brings to fault the memory in on several threads, or in huge pages that the system makes of the file's.

#include "bench/device/report.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

namespace weir::bench {
namespace {

constexpr const char *speed = "GiB/s";
constexpr const char *time_unit = "s/GiB";

double gib_of(uint64_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024 * 1024); }

/// A mapped memfd. Without memory if the system has none of that kind; `why` says it then.
class File {
 public:
  File(uint64_t bytes, unsigned flags) : bytes_(bytes) {
    const int file = memfd_create("weir-bench", MFD_CLOEXEC | flags);
    void *memory = MAP_FAILED;
    if (file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0)
      memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) why_ = std::string("no such memory: ") + std::strerror(errno);
    if (memory != MAP_FAILED) memory_ = memory;
    if (file >= 0) close(file);
  }
  ~File() {
    if (memory_ != nullptr) munmap(memory_, bytes_);
  }
  File(const File &) = delete;
  File &operator=(const File &) = delete;
  void *memory() const { return memory_; }
  /// Faults all of it in, a part of it on each thread. 0, or the error.
  int populate(uint32_t threads, bool huge) const {
#ifdef MADV_POPULATE_WRITE
    if (huge && madvise(memory_, bytes_, MADV_HUGEPAGE) != 0) return errno;
    std::vector<std::thread> all;
    std::vector<int> errors(threads);
    const uint64_t part = bytes_ / threads / (2 * mib) * (2 * mib);
    for (uint32_t i = 0; i < threads; ++i) {
      all.emplace_back([&, i] {
        const uint64_t begin = i * part, end = i + 1 == threads ? bytes_ : begin + part;
        if (madvise(static_cast<char *>(memory_) + begin, end - begin, MADV_POPULATE_WRITE) != 0)
          errors[i] = errno;
      });
    }
    for (std::thread &each : all) each.join();
    for (const int error : errors)
      if (error != 0) return error;
    return 0;
#else
    (void)threads, (void)huge;
    return ENOSYS;
#endif
  }
  uint64_t address() const { return reinterpret_cast<uint64_t>(memory_); }
  const std::string &why() const { return why_; }

 private:
  const uint64_t bytes_;
  void *memory_ = nullptr;
  std::string why_;
};

class Registered {
 public:
  Registered(const Settings &settings, const Backend &backend, Report &report)
      : settings_(settings), backend_(backend), report_(report), queue_(backend) {}

  void measure(const char *kind, unsigned flags) {
    const uint64_t bytes = settings_.bytes;
    File file(bytes, flags);
    if (file.memory() == nullptr) return skip(kind, file.why());
    const double touched = timed([&] { std::memset(file.memory(), 1, bytes); });
    weir_result result = WEIR_SUCCESS;
    const double registered = timed(
        [&] { result = backend_.table().host_register(backend_.state(), file.memory(), bytes); });
    if (result != WEIR_SUCCESS) return skip(kind, weir_result_string(result));
    Series register_time, down, up, enqueued;
    register_time.add((touched + registered) * 1e-9 / gib_of(bytes), allocate_s_per_gib());
    {
      const Pinned pinned(backend_, bytes);
      const Plain device(backend_, bytes);
      for (int i = -1; i < settings_.repetitions; ++i) {
        const double times[] = {
            copy(file.address(), device.address()), copy(pinned.address(), device.address()),
            copy(device.address(), file.address()), copy(device.address(), pinned.address())};
        if (i < 0) continue;
        enqueued.add(enqueue_share(file.address(), device.address()),
                     enqueue_share(pinned.address(), device.address()));
        down.add(gib_of(bytes) / times[0] * 1e9, gib_of(bytes) / times[1] * 1e9);
        up.add(gib_of(bytes) / times[2] * 1e9, gib_of(bytes) / times[3] * 1e9);
      }
    }
    const double removed = timed([&] {
      backend_.must(backend_.table().host_unregister(backend_.state(), file.memory(), bytes),
                    "host_unregister");
    });
    const auto tell = [&](const Meaning &meaning, const Series &series, const char *way) {
      report_.figure(meaning, series,
                     [&](Json &json) { json.text("memory", kind).text("way", way); });
    };
    tell({"registered_copy", "copies to a registered memfd", "as many to memory of host_allocate",
          speed},
         down, "down");
    tell({"registered_copy", "copies from a registered memfd",
          "as many from memory of host_allocate", speed},
         up, "up");
    tell({"registered_copy_call",
          "share of the time of copies down that the calls take which enqueue them",
          "the same with memory of host_allocate", "of the time"},
         enqueued, "down");
    report_.figure({"registration", "touching and registering a memfd",
                    "host_allocate of as much, touched", time_unit},
                   register_time, [&](Json &json) {
                     json.text("memory", kind)
                         .number("registering_share", registered / (touched + registered))
                         .number("unregistering_share", removed / (touched + registered));
                   });
  }

  /// Threads that fault memory in, held against one.
  void populate(uint32_t threads, bool huge) {
    const Meaning meaning{"population", "a memfd faulted in on several threads",
                          "the same on one thread, in pages of the system", time_unit};
    Series series;
    int error = 0;
    const auto once = [&](uint32_t on, bool in_huge) {
      const File file(settings_.bytes, 0);
      if (file.memory() == nullptr) {
        error = ENOMEM;
        return 0.0;
      }
      const double ns = timed([&] {
        if (const int met = file.populate(on, in_huge); met != 0) error = met;
      });
      return ns * 1e-9 / gib_of(settings_.bytes);
    };
    for (int i = 0; i < 3 && error == 0; ++i) {
      const double ours = once(threads, huge);
      series.add(ours, once(1, false));
    }
    if (error != 0) return report_.skipped(meaning, std::strerror(error));
    report_.figure(meaning, series, [&](Json &json) {
      json.count("threads", threads)
          .text("memory", huge ? "huge pages where the system makes them" : "pages of the system");
    });
  }

 private:
  template <class Function>
  static double timed(Function &&function) {
    const double start = now_ns();
    function();
    return now_ns() - start;
  }
  double allocate_s_per_gib() const {
    return timed([&] { const Pinned pinned(backend_, settings_.bytes); }) * 1e-9 /
           gib_of(settings_.bytes);
  }
  double copy(uint64_t to, uint64_t from) const {
    return timed([&] {
      for (uint64_t at = 0; at < settings_.bytes; at += settings_.page)
        queue_.copy(to + at, from + at, settings_.page);
      queue_.wait();
    });
  }
  /// 1 where the calls wait for their copies.
  double enqueue_share(uint64_t to, uint64_t from) const {
    double calls = 0;
    const double all = timed([&] {
      calls = timed([&] {
        for (uint64_t at = 0; at < settings_.bytes; at += settings_.page)
          queue_.copy(to + at, from + at, settings_.page);
      });
      queue_.wait();
    });
    return calls / all;
  }
  void skip(const char *kind, const std::string &why) {
    report_.skipped({"registered_copy", "copies to and from a registered memfd", "", speed},
                    (std::string(kind) + ": " + why).c_str());
  }

  const Settings &settings_;
  const Backend &backend_;
  Report &report_;
  const Queue queue_;
};

}  // namespace

void measure_registered(const Settings &settings, const Backend &backend, Report &report) {
  if (!backend.has(WEIR_CAP_HOST_REGISTER)) {
    return report.skipped({"registered_copy", "copies to and from a registered memfd", "", speed},
                          "the device can't use registered memory");
  }
  Registered registered(settings, backend, report);
  registered.measure("pages of the system", 0);
  if (settings.bytes % (2 * mib) == 0) registered.measure("huge pages", MFD_HUGETLB);
  registered.populate(1, true);
  for (const uint32_t threads : {2, 4, 8}) registered.populate(threads, false);
}

}  // namespace weir::bench
