// SPDX-License-Identifier: Apache-2.0
//
// The host backend with faults that make the conformance suite tell each of its verdicts: WEIR_FAULTY names them, with commas
// between them. They are about the suite's program, and coarse; faults that it has to be good to find are the mutants'.

#include "backends/host/table.hpp"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

const weir_backend_table &real() { return *weir_host_backend_query(WEIR_BACKEND_ABI_MAJOR); }

/// Lives as long as the process, and takes signals.
void start_thread() {
  pthread_t thread;
  const auto body = [](void *) -> void * {
    for (;;) pause();
  };
  if (pthread_create(&thread, nullptr, body, nullptr) == 0) pthread_detach(thread);
}

weir_result link(weir_be_state *state, uint32_t from, uint32_t to, weir_be_link *link,
                 void (*change)(weir_be_link *)) {
  const weir_result result = real().link_describe(state, from, to, link);
  if (result == WEIR_SUCCESS && from != to && link->struct_size >= sizeof *link) change(link);
  return result;
}

template <class Number>
weir_result describe(weir_be_state *state, uint32_t device, weir_be_device *about, Number number) {
  const weir_result result = real().device_describe(state, device, about);
  if (result == WEIR_SUCCESS && about->struct_size == sizeof *about)
    std::memcpy(about->uuid, &number, sizeof number);
  return result;
}

struct Fault {
  const char *name;
  void (*plant)(weir_backend_table &table);
};
const Fault faults[] = {
    {"dies",
     [](weir_backend_table &t) {
       t.stream_create = [](weir_be_state *, uint32_t, uint64_t, weir_be_stream *) -> weir_result {
         std::fputs("faulty: dies\n", stderr);
         std::abort();
       };
     }},
    {"hangs",
     [](weir_backend_table &t) {
       t.fence_record = [](weir_be_state *, weir_be_stream, weir_be_fence *) -> weir_result {
         for (;;) pause();
       };
     }},
    {"oom",  // too much memory is no DEVICE_OOM
     [](weir_backend_table &t) {
       t.plain_allocate = [](weir_be_state *state, uint32_t device, uint64_t bytes,
                             uint64_t alignment, uint64_t *address) {
         const weir_result result = real().plain_allocate(state, device, bytes, alignment, address);
         return result == WEIR_ERROR_DEVICE_OOM ? weir_result{WEIR_ERROR_BACKEND} : result;
       };
     }},
    {"free",  // refused, and told on stderr
     [](weir_backend_table &t) {
       t.plain_free = [](weir_be_state *state, uint32_t device, uint64_t address,
                         uint64_t bytes) -> weir_result {
         std::fputs("faulty: frees <\"nothing\">\n", stderr);
         (void)real().plain_free(state, device, address, bytes);
         return WEIR_ERROR_BACKEND;
       };
     }},
    {"second",  // the second device has no memory
     [](weir_backend_table &t) {
       t.plain_allocate = [](weir_be_state *state, uint32_t device, uint64_t bytes,
                             uint64_t alignment, uint64_t *address) {
         return device == 1 ? weir_result{WEIR_ERROR_BACKEND}
                            : real().plain_allocate(state, device, bytes, alignment, address);
       };
     }},
    {"signals",
     [](weir_backend_table &t) {
       t.start = [](const weir_be_start *desc, weir_be_state **state, const char **reason) {
         const weir_result result = real().start(desc, state, reason);
         if (result == WEIR_SUCCESS) start_thread();
         return result;
       };
     }},
    {"hops",
     [](weir_backend_table &t) {
       t.link_describe = [](weir_be_state *state, uint32_t from, uint32_t to, weir_be_link *about) {
         return link(state, from, to, about, [](weir_be_link *l) { l->hops = 0; });
       };
     }},
    {"kinds",  // of a link, by direction
     [](weir_backend_table &t) {
       t.link_describe = [](weir_be_state *state, uint32_t from, uint32_t to, weir_be_link *about) {
         return from > to ? real().link_describe(state, from, to, about)
                          : link(state, from, to, about,
                                 [](weir_be_link *l) { l->kind = WEIR_LINK_NETWORK; });
       };
     }},
    {"direct",  // of a link between devices, by direction
     [](weir_backend_table &t) {
       t.link_describe = [](weir_be_state *state, uint32_t from, uint32_t to, weir_be_link *about) {
         return from > to || to == WEIR_DEVICE_HOST || from == WEIR_DEVICE_HOST
                    ? real().link_describe(state, from, to, about)
                    : link(state, from, to, about, [](weir_be_link *l) { l->direct = 0; });
       };
     }},
    {"uuid_of_state",
     [](weir_backend_table &t) {
       t.device_describe = [](weir_be_state *state, uint32_t device, weir_be_device *about) {
         static std::atomic<uint32_t> states{0};
         static thread_local weir_be_state *last = nullptr;
         if (state != last) ++states;
         last = state;
         return describe(state, device, about, states.load());
       };
     }},
    {"uuid_of_process",
     [](weir_backend_table &t) {
       t.device_describe = [](weir_be_state *state, uint32_t device, weir_be_device *about) {
         return describe(state, device, about, getpid());
       };
     }},
    {"no_uuid",
     [](weir_backend_table &t) {
       t.device_describe = [](weir_be_state *state, uint32_t device, weir_be_device *about) {
         return describe(state, device, about, std::array<uint64_t, 2>{});
       };
     }},
};

/// A name that is none gives no table: it must not pass for a backend without faults.
const weir_backend_table *planted() {
  static weir_backend_table table = real();
  const char *wanted = std::getenv("WEIR_FAULTY");
  std::string names = wanted != nullptr ? wanted : "";
  while (!names.empty()) {
    const size_t comma = names.find(',');
    const std::string name = names.substr(0, comma);
    names = comma == std::string::npos ? "" : names.substr(comma + 1);
    bool found = false;
    for (const Fault &fault : faults) {
      if (name != fault.name) continue;
      fault.plant(table);
      found = true;
    }
    if (!found) return nullptr;
  }
  return &table;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const weir_backend_table *weir_backend_query(
    uint32_t abi_major) {
  static const weir_backend_table *const table = planted();
  return abi_major == WEIR_BACKEND_ABI_MAJOR ? table : nullptr;
}
