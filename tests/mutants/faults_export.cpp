// SPDX-License-Identifier: Apache-2.0
//
// Faults of memory that leaves the process.

#include "tests/mutants/mutant.hpp"

#include <fcntl.h>
#include <unistd.h>

namespace weir::mutants {
namespace {

weir_result export_granule(weir_be_state *state, uint32_t device, weir_be_granule granule,
                           int32_t *fd) {
  return real().granule_export(state, device, granule, fd);
}

weir_result import_granule(weir_be_state *state, uint32_t device, int32_t fd, uint64_t bytes,
                           weir_be_granule *granule) {
  return real().granule_import(state, device, fd, bytes, granule);
}

constexpr Fault faults[] = {
    {"export_leaks", "each export leaves a second descriptor open", "EX-007",
     [](weir_backend_table &t) {
       t.granule_export = [](weir_be_state *state, uint32_t device, weir_be_granule granule,
                             int32_t *fd) {
         const weir_result result = export_granule(state, device, granule, fd);
         if (result == WEIR_SUCCESS) (void)fcntl(*fd, F_DUPFD_CLOEXEC, 0);
         return result;
       };
     }},
    {"export_without_cloexec", "an exported descriptor is inherited by every program that is run",
     "EX-001",
     [](weir_backend_table &t) {
       t.granule_export = [](weir_be_state *state, uint32_t device, weir_be_granule granule,
                             int32_t *fd) {
         const weir_result result = export_granule(state, device, granule, fd);
         if (result == WEIR_SUCCESS) (void)fcntl(*fd, F_SETFD, 0);
         return result;
       };
     }},
    {"export_of_any_granule", "granules that were not made for it are exported", "EX-003",
     [](weir_backend_table &t) {
       t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                             weir_be_granule *granule) {
         return real().granule_create(state, device, bytes, flags | WEIR_BE_GRANULE_EXPORT_FD,
                                      granule);
       };
     }},
    {"export_out_on_failure", "a failed export writes the descriptor", "EX-003",
     [](weir_backend_table &t) {
       t.granule_export = [](weir_be_state *state, uint32_t device, weir_be_granule granule,
                             int32_t *fd) {
         const weir_result result = export_granule(state, device, granule, fd);
         if (result != WEIR_SUCCESS) *fd = -1;
         return result;
       };
     }},
    {"import_takes_descriptor", "import closes the descriptor, which is the caller's", "EX-005",
     [](weir_backend_table &t) {
       t.granule_import = [](weir_be_state *state, uint32_t device, int32_t fd, uint64_t bytes,
                             weir_be_granule *granule) {
         const weir_result result = import_granule(state, device, fd, bytes, granule);
         if (result == WEIR_SUCCESS) (void)close(fd);
         return result;
       };
     }},
    {"import_leaks", "each import leaves a descriptor open", "EX-007",
     [](weir_backend_table &t) {
       t.granule_import = [](weir_be_state *state, uint32_t device, int32_t fd, uint64_t bytes,
                             weir_be_granule *granule) {
         const weir_result result = import_granule(state, device, fd, bytes, granule);
         if (result == WEIR_SUCCESS) (void)fcntl(fd, F_DUPFD_CLOEXEC, 0);
         return result;
       };
     }},
    {"import_gives_new_memory", "an imported granule is other memory than the exported one",
     "EX-004",
     [](weir_backend_table &t) {
       t.granule_import = [](weir_be_state *state, uint32_t device, int32_t fd, uint64_t bytes,
                             weir_be_granule *granule) {
         const weir_result result = import_granule(state, device, fd, bytes, granule);
         if (result != WEIR_SUCCESS) return result;
         (void)real().granule_destroy(state, device, *granule);
         return real().granule_create(state, device, bytes, 0, granule);
       };
     }},
    {"import_of_any_size", "import of more bytes than were exported gives as much memory", "EX-017",
     [](weir_backend_table &t) {
       t.granule_import = [](weir_be_state *state, uint32_t device, int32_t fd, uint64_t bytes,
                             weir_be_granule *granule) {
         const weir_result result = import_granule(state, device, fd, bytes, granule);
         const bool exported = fcntl(fd, F_GET_SEALS) > 0;
         return result == WEIR_SUCCESS || !exported
                    ? result
                    : real().granule_create(state, device, bytes, 0, granule);
       };
     }},
    {"import_of_anything", "import of a descriptor that is no exported memory gives memory",
     "EX-008",
     [](weir_backend_table &t) {
       t.granule_import = [](weir_be_state *state, uint32_t device, int32_t fd, uint64_t bytes,
                             weir_be_granule *granule) {
         const weir_result result = import_granule(state, device, fd, bytes, granule);
         return result == WEIR_SUCCESS ? result
                                       : real().granule_create(state, device, bytes, 0, granule);
       };
     }},
};

}  // namespace

std::span<const Fault> export_faults() { return faults; }

}  // namespace weir::mutants
