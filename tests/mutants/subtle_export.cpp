// SPDX-License-Identifier: Apache-2.0
//
// Subtle faults of memory that leaves the process as a descriptor.

#include "tests/mutants/memory_tools.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

namespace weir::mutants {
namespace {

using mem::Key;
using mem::refuse;

weir_result export_fd(weir_be_state *state, uint32_t device, weir_be_granule granule, int32_t *fd) {
  return real().granule_export(state, device, granule, fd);
}

/// Imported granules; kept by note_imports().
Book<Key, bool> imported;

void note_imports(weir_backend_table &t) {
  mem::note_granules(t);
  t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                        weir_be_granule *granule) {
    const weir_result result = mem::create(state, device, bytes, flags, granule);
    if (result == WEIR_SUCCESS) (void)imported.take({state, *granule});
    return result;
  };
  t.granule_import = [](weir_be_state *state, uint32_t device, int32_t fd, uint64_t bytes,
                        weir_be_granule *granule) {
    const weir_result result = mem::import(state, device, fd, bytes, granule);
    if (result == WEIR_SUCCESS) imported.put({state, *granule}, true);
    return result;
  };
}

/// Copies the bytes of one granule into another, where the CPU reaches both.
void copy_granule(weir_be_state *state, uint32_t device, weir_be_granule from, weir_be_granule to,
                  uint64_t bytes) {
  uint64_t at = 0;
  const auto put = [&](uint64_t address, weir_be_granule granule) {
    return real().map(state, device, address, bytes, granule, 0, nullptr, 0) == WEIR_SUCCESS;
  };
  if (real().range_reserve(state, device, 2 * bytes, mem::unit(state, device), &at) != WEIR_SUCCESS)
    return;
  const bool first = put(at, from), second = put(at + bytes, to);
  if (first && second) std::memcpy(bytes_at(at + bytes), bytes_at(at), bytes);
  if (first) (void)real().unmap(state, device, at, bytes);
  if (second) (void)real().unmap(state, device, at + bytes, bytes);
  (void)real().range_free(state, device, at, 2 * bytes);
}

constexpr Fault faults[] = {
    // granule_export: "A new descriptor of a granule", whatever is exported later.
    {"exports_share_a_description", "a second export makes the first descriptor name its granule",
     "EX-013",
     [](weir_backend_table &t) {
       static Book<std::pair<weir_be_state *, uint32_t>, int32_t> kept;
       t.granule_export = [](weir_be_state *state, uint32_t device, weir_be_granule granule,
                             int32_t *fd) {
         int32_t fresh = -1;
         const weir_result result = export_fd(state, device, granule, &fresh);
         if (result != WEIR_SUCCESS) return result;
         const auto before = kept.find({state, device});
         struct stat ours {
         }, theirs{};
         if (before && fstat(*before, &theirs) == 0 && fstat(fresh, &ours) == 0 &&
             ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev) {
           (void)lseek(*before, lseek(fresh, 0, SEEK_CUR), SEEK_SET);
           (void)close(fresh);
           *fd = fcntl(*before, F_DUPFD_CLOEXEC, 0);
         } else {
           kept.put({state, device}, fcntl(fresh, F_DUPFD_CLOEXEC, 0));
           *fd = fresh;
         }
         return result;
       };
       t.stop = [](weir_be_state *state) {
         for (uint32_t i = mem::devices(state); i-- > 0;)
           if (const auto fd = kept.take({state, i})) (void)close(*fd);
         real().stop(state);
       };
     }},
    // granule_import: "the descriptor stays the caller's", who may import it once more.
    {"import_spends_descriptor", "a descriptor that was imported can't be imported a second time",
     "EX-018",
     [](weir_backend_table &t) {
       t.granule_import = [](weir_be_state *state, uint32_t device, int32_t fd, uint64_t bytes,
                             weir_be_granule *granule) {
         const weir_result result = real().granule_import(state, device, fd, bytes, granule);
         if (result == WEIR_SUCCESS) (void)lseek(fd, static_cast<off_t>(bytes), SEEK_CUR);
         return result;
       };
     }},
    // granule_export: "of a granule made with WEIR_BE_GRANULE_EXPORT_FD", mapped or not.
    {"mapped_granule_not_exported", "a granule can't be exported while it is mapped",
     "EX-001,EX-006,EX-012",
     [](weir_backend_table &t) {
       static Book<Key, int> count;
       mem::note_maps(t);
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  weir_be_granule granule, auto... rest) {
         const weir_result result = mem::map(state, device, address, bytes, granule, rest...);
         if (result == WEIR_SUCCESS)
           count.put({state, granule}, count.find({state, granule}).value_or(0) + 1);
         return result;
       };
       t.unmap = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const auto mapping = mem::mapped.find(address);
         const weir_result result = mem::unmap(state, device, address, bytes);
         if (result == WEIR_SUCCESS && mapping) {
           const Key key{state, mapping->granule};
           count.put(key, count.find(key).value_or(1) - 1);
         }
         return result;
       };
       t.granule_export = [](weir_be_state *state, uint32_t device, weir_be_granule granule,
                             int32_t *fd) {
         return count.find({state, granule}).value_or(0) > 0
                    ? refuse(state, WEIR_ERROR_BACKEND)
                    : export_fd(state, device, granule, fd);
       };
     }},
    // granule_destroy ends a granule, and "the caller closes" the descriptor: then all is given back.
    {"exported_granules_leak", "the memory of a granule that was exported is not given back",
     "EX-023",
     [](weir_backend_table &t) {
       static Book<Key, bool> exported;
       mem::note_granules(t);
       t.granule_export = [](weir_be_state *state, uint32_t device, weir_be_granule granule,
                             int32_t *fd) {
         const weir_result result = export_fd(state, device, granule, fd);
         if (result == WEIR_SUCCESS) exported.put({state, granule}, true);
         return result;
       };
       t.granule_destroy = [](weir_be_state *state, uint32_t device, weir_be_granule granule) {
         const auto block = mem::granules.find({state, granule});
         const weir_result result = mem::destroy(state, device, granule);
         weir_be_granule kept = 0;
         if (result == WEIR_SUCCESS && exported.take({state, granule}) && block)
           (void)real().granule_create(state, device, block->bytes, 0, &kept);
         return result;
       };
     }},
    // device_memory: "Bytes free now"; an import is "over somebody's exported memory".
    {"imports_counted_as_used", "memory that a process imports from itself is counted twice",
     "EX-025",
     [](weir_backend_table &t) {
       static Book<std::pair<weir_be_state *, uint32_t>, uint64_t> sums;
       note_imports(t);
       t.granule_import = [](weir_be_state *state, uint32_t device, int32_t fd, uint64_t bytes,
                             weir_be_granule *granule) {
         const weir_result result = mem::import(state, device, fd, bytes, granule);
         if (result != WEIR_SUCCESS) return result;
         imported.put({state, *granule}, true);
         sums.put({state, device}, sums.find({state, device}).value_or(0) + bytes);
         return result;
       };
       t.granule_destroy = [](weir_be_state *state, uint32_t device, weir_be_granule granule) {
         const auto block = mem::granules.find({state, granule});
         const weir_result result = mem::destroy(state, device, granule);
         if (result == WEIR_SUCCESS && block && imported.take({state, granule}))
           sums.put({state, device},
                    sums.find({state, device}).value_or(block->bytes) - block->bytes);
         return result;
       };
       t.device_memory = [](weir_be_state *state, uint32_t device, uint64_t *free,
                            uint64_t *total) {
         const weir_result result = real().device_memory(state, device, free, total);
         if (result == WEIR_SUCCESS)
           *free -= std::min(*free, sums.find({state, device}).value_or(0));
         return result;
       };
     }},
    // granule_import: "Ended by granule_destroy", and nothing else is ended by that.
    {"import_end_ends_exporters", "the end of an imported granule ends the exported one too",
     "EX-002,EX-005,EX-013",
     [](weir_backend_table &t) {
       static Book<std::pair<uint32_t, int64_t>, Key> places;
       static Book<Key, weir_be_granule> originals;
       t.granule_export = [](weir_be_state *state, uint32_t device, weir_be_granule granule,
                             int32_t *fd) {
         const weir_result result = export_fd(state, device, granule, fd);
         if (result == WEIR_SUCCESS)
           places.put({device, lseek(*fd, 0, SEEK_CUR)}, {state, granule});
         return result;
       };
       t.granule_import = [](weir_be_state *state, uint32_t device, int32_t fd, uint64_t bytes,
                             weir_be_granule *granule) {
         const auto original = places.find({device, lseek(fd, 0, SEEK_CUR)});
         const weir_result result = real().granule_import(state, device, fd, bytes, granule);
         if (result == WEIR_SUCCESS && original && original->first == state)
           originals.put({state, *granule}, original->second);
         return result;
       };
       t.granule_destroy = [](weir_be_state *state, uint32_t device, weir_be_granule granule) {
         const weir_result result = real().granule_destroy(state, device, granule);
         const auto original =
             result == WEIR_SUCCESS ? originals.take({state, granule}) : std::nullopt;
         if (original) (void)real().granule_destroy(state, device, *original);
         return result;
       };
     }},
    // "refused with INVALID_ARGUMENT": sizes of the wrong multiple.
    {"import_size_told_as_backend", "an import of a wrong size is told as BACKEND",
     "ER-013,EX-007,EX-009",
     [](weir_backend_table &t) {
       t.granule_import = [](weir_be_state *state, uint32_t device, int32_t fd, uint64_t bytes,
                             weir_be_granule *granule) {
         const weir_result result = real().granule_import(state, device, fd, bytes, granule);
         const bool odd = bytes == 0 || bytes % mem::unit(state, device) != 0;
         return result == WEIR_ERROR_INVALID_ARGUMENT && odd ? weir_result{WEIR_ERROR_BACKEND}
                                                             : result;
       };
     }},
    // "Out-parameters are written only on success."
    {"import_out_on_failure", "a refused import writes the granule", "EX-008",
     [](weir_backend_table &t) {
       t.granule_import = [](weir_be_state *state, uint32_t device, int32_t fd, uint64_t bytes,
                             weir_be_granule *granule) {
         const weir_result result = real().granule_import(state, device, fd, bytes, granule);
         if (result != WEIR_SUCCESS) *granule = 0;
         return result;
       };
     }},
    // "On failure ... nothing is leaked".
    {"refused_import_leaks", "a refused import leaves a copy of the descriptor open", "EX-007",
     [](weir_backend_table &t) {
       t.granule_import = [](weir_be_state *state, uint32_t device, int32_t fd, auto... rest) {
         const weir_result result = real().granule_import(state, device, fd, rest...);
         if (result != WEIR_SUCCESS) (void)fcntl(fd, F_DUPFD_CLOEXEC, 0);
         return result;
       };
     }},
    // granule_export: "of a granule made with WEIR_BE_GRANULE_EXPORT_FD", on every device that claims EXPORT_FD.
    {"second_device_not_exported", "granules of the first device only can be exported",
     "EX-018,EX-021,FA-006",
     [](weir_backend_table &t) {
       t.granule_export = [](weir_be_state *state, uint32_t device, weir_be_granule granule,
                             int32_t *fd) {
         return device != 0 ? refuse(state) : export_fd(state, device, granule, fd);
       };
     }},
    // "A new descriptor ...; the caller closes it": then its place is free again.
    {"exports_run_out", "every export keeps a place: after 2000 there is none left", "LI-022",
     [](weir_backend_table &t) {
       t.granule_export = [](weir_be_state *state, auto... rest) {
         static std::atomic<int> places{2000};
         if (places <= 0) return refuse(state, WEIR_ERROR_BACKEND);
         const weir_result result = export_fd(state, rest...);
         if (result == WEIR_SUCCESS) --places;
         return result;
       };
     }},
    // MULTI_MAP: "one granule may be live at several addresses", an imported one too.
    {"imported_mapped_once", "an imported granule can be mapped at one address at a time", "EX-021",
     [](weir_backend_table &t) {
       static Book<Key, uint64_t> places;
       note_imports(t);
       mem::note_maps(t);
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  weir_be_granule granule, auto... rest) {
         const Key key{state, granule};
         const auto place = imported.find(key) ? places.find(key) : std::nullopt;
         const auto there = place ? mem::mapped.find(*place) : std::nullopt;
         if (there && there->granule == granule) return refuse(state);
         const weir_result result = mem::map(state, device, address, bytes, granule, rest...);
         if (result == WEIR_SUCCESS) places.put(key, address);
         return result;
       };
     }},
    // map: "Maps granule bytes [offset, offset+bytes)", of an imported granule too.
    {"imported_offset_ignored", "a part of an imported granule is mapped from its beginning",
     "EX-026",
     [](weir_backend_table &t) {
       note_imports(t);
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  weir_be_granule granule, uint64_t offset, auto... rest) {
         return real().map(state, device, address, bytes, granule,
                           imported.find({state, granule}) ? 0 : offset, rest...);
       };
     }},
    // granule_import: "A granule over somebody's exported memory".
    {"import_is_a_snapshot", "an imported granule has the bytes of the moment when it was imported",
     "EX-004,EX-010,EX-011",
     [](weir_backend_table &t) {
       t.granule_import = [](weir_be_state *state, uint32_t device, int32_t fd, uint64_t bytes,
                             weir_be_granule *granule) {
         weir_be_granule from = 0, to = 0;
         const weir_result result = real().granule_import(state, device, fd, bytes, &from);
         if (result != WEIR_SUCCESS) return result;
         if (real().granule_create(state, device, bytes, 0, &to) != WEIR_SUCCESS) {
           *granule = from;
           return result;
         }
         copy_granule(state, device, from, to, bytes);
         (void)real().granule_destroy(state, device, from);
         *granule = to;
         return result;
       };
     }},
};

}  // namespace

std::span<const Fault> subtle_export_faults() { return faults; }

}  // namespace weir::mutants
