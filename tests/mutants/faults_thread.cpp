// SPDX-License-Identifier: Apache-2.0
//
// Faults that show when several threads call at once. Each has a window between reading and writing what the
// threads share, in which a thread waits for company, so that contention hits it at any speed. The shared
// values are atomic: what goes wrong is the logic, and a sanitizer has nothing to say.

#include "tests/mutants/mutant.hpp"

#include <atomic>

namespace weir::mutants {
namespace {

constexpr Fault faults[] = {
    {"count_not_atomic", "used memory is counted without care for other threads", "TH-018",
     [](weir_backend_table &t) {
       // What is given back is counted with care: what is lost one way only never comes out even.
       static std::atomic<uint64_t> taken{0}, given{0};
       const auto count = [](uint64_t bytes) {
         const uint64_t before = taken.load();
         window();
         taken.store(before + bytes);
       };
       static void (*const take)(uint64_t) = count;
       t.plain_allocate = [](weir_be_state *state, uint32_t device, uint64_t bytes, auto... rest) {
         const weir_result result = real().plain_allocate(state, device, bytes, rest...);
         if (result == WEIR_SUCCESS) take(bytes);
         return result;
       };
       t.plain_free = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const weir_result result = real().plain_free(state, device, address, bytes);
         if (result == WEIR_SUCCESS) given.fetch_add(bytes);
         return result;
       };
       static Book<weir_be_granule, uint64_t> sizes;
       t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                             weir_be_granule *granule) {
         const weir_result result = real().granule_create(state, device, bytes, flags, granule);
         if (result != WEIR_SUCCESS) return result;
         sizes.put(*granule, bytes);
         take(bytes);
         return result;
       };
       t.granule_destroy = [](weir_be_state *state, uint32_t device, weir_be_granule granule) {
         const weir_result result = real().granule_destroy(state, device, granule);
         if (result != WEIR_SUCCESS) return result;
         given.fetch_add(sizes.take(granule).value_or(0));
         return result;
       };
       t.device_memory = [](weir_be_state *state, uint32_t device, uint64_t *free,
                            uint64_t *total) {
         const weir_result result = real().device_memory(state, device, free, total);
         if (result == WEIR_SUCCESS) *free = *total - (taken.load() - given.load());
         return result;
       };
     }},
    {"memory_given_to_two", "two threads that allocate at once can get the same memory", "TH-018",
     [](weir_backend_table &t) {
       // The block freed last is kept for the next that asks.
       static std::atomic<uint64_t> kept{0}, kept_bytes{0};
       t.plain_free = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         if (device == 0 && kept.load() == address) return weir_result{WEIR_SUCCESS};
         if (device == 0 && kept.load() == 0) {
           kept_bytes.store(bytes);
           kept.store(address);
           return weir_result{WEIR_SUCCESS};
         }
         (void)real().plain_free(state, device, address, bytes);
         return weir_result{WEIR_SUCCESS};
       };
       t.plain_allocate = [](weir_be_state *state, uint32_t device, uint64_t bytes, auto alignment,
                             uint64_t *address) {
         const uint64_t before = kept.load();
         if (device == 0 && before != 0 && kept_bytes.load() == bytes) {
           window();
           kept.store(0);
           *address = before;
           return weir_result{WEIR_SUCCESS};
         }
         return real().plain_allocate(state, device, bytes, alignment, address);
       };
     }},
    {"copy_through_a_global", "copies of two threads get mixed up", "TH-004",
     [](weir_backend_table &t) {
       static Book<int, weir_be_copy> current;
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *given) {
         if (given == nullptr) return real().copy_async(state, stream, given);
         current.put(0, *given);
         window();
         const weir_be_copy copy = *current.find(0);
         return real().copy_async(state, stream, &copy);
       };
     }},
    {"current_device", "the device that a call is about is a global, as with a careless runtime",
     "TH-017",
     [](weir_backend_table &t) {
       static std::atomic<uint32_t> device_now{0};
       t.plain_allocate = [](weir_be_state *state, uint32_t device, auto... rest) {
         device_now = device;
         window();
         return real().plain_allocate(state, device_now.load(), rest...);
       };
       t.granule_create = [](weir_be_state *state, uint32_t device, auto... rest) {
         device_now = device;
         window();
         return real().granule_create(state, device_now.load(), rest...);
       };
     }},
    {"fence_of_another_thread", "threads that record at once can get each other's fence", "TH-015",
     [](weir_backend_table &t) {
       static std::atomic<weir_be_stream> stream_now{nullptr};
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         stream_now = stream;
         window();
         return real().fence_record(state, stream_now.load(), fence);
       };
     }},
    {"one_failure_for_all_threads", "a thread's failure makes another thread's call fail", "TH-014",
     [](weir_backend_table &t) {
       static std::atomic<weir_result> last{WEIR_SUCCESS};
       t.plain_allocate = [](auto... rest) {
         last = WEIR_SUCCESS;
         const weir_result result = real().plain_allocate(rest...);
         if (result != WEIR_SUCCESS) last = result;
         window();
         return last.load() != WEIR_SUCCESS ? last.load() : result;
       };
     }},
};

}  // namespace

std::span<const Fault> thread_faults() { return faults; }

}  // namespace weir::mutants
