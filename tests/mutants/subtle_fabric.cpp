// SPDX-License-Identifier: Apache-2.0
//
// Subtle faults of memory that is exported over a fabric. The host backend has none: the faults stand on a fabric of this
// machine's processes, whose handles name a descriptor of the exporting one.

#include "tests/mutants/memory_tools.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>

namespace weir::mutants {
namespace {

using mem::Key;
using mem::refuse;

weir_result export_fd(weir_be_state *state, uint32_t device, weir_be_granule granule, int32_t *fd) {
  return real().granule_export(state, device, granule, fd);
}

/// A fabric of the processes of this machine.
struct Fabric {
  struct Handle {
    uint64_t magic;
    int32_t process, fd;
    int64_t offset;
  };
  struct Granule {
    uint64_t flags;
    int32_t fd;  ///< open as long as the granule lives, or -1
  };
  static constexpr uint64_t magic = UINT64_C(0x7765697266616272);
  static inline Book<Key, Granule> granules;
  static_assert(sizeof(Handle) <= sizeof(weir_be_fabric_handle));

  static weir_result create(weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                            weir_be_granule *granule) {
    const uint64_t real_flags =
        (flags & WEIR_BE_GRANULE_EXPORT_FABRIC) != 0
            ? (flags & ~WEIR_BE_GRANULE_EXPORT_FABRIC) | WEIR_BE_GRANULE_EXPORT_FD
            : flags;
    const weir_result result = real().granule_create(state, device, bytes, real_flags, granule);
    if (result == WEIR_SUCCESS) granules.put({state, *granule}, {flags, -1});
    return result;
  }

  static weir_result destroy(weir_be_state *state, uint32_t device, weir_be_granule granule) {
    const weir_result result = real().granule_destroy(state, device, granule);
    const auto known = result == WEIR_SUCCESS ? granules.take({state, granule}) : std::nullopt;
    if (known && known->fd >= 0) (void)close(known->fd);
    return result;
  }

  static void stop(weir_be_state *state) {
    for (auto at = granules.below({state, UINT64_MAX}); at && at->first.first == state;
         at = granules.below({state, UINT64_MAX})) {
      (void)granules.take(at->first);
      if (at->second.fd >= 0) (void)close(at->second.fd);
    }
    real().stop(state);
  }

  static weir_result export_as_fd(weir_be_state *state, uint32_t device, weir_be_granule granule,
                                  int32_t *fd) {
    const auto known = granules.find({state, granule});
    const bool no = known && (known->flags & WEIR_BE_GRANULE_EXPORT_FD) == 0;
    return no ? refuse(state) : export_fd(state, device, granule, fd);
  }

  static weir_result export_fabric(weir_be_state *state, uint32_t device, weir_be_granule granule,
                                   weir_be_fabric_handle *handle) {
    auto known = granules.find({state, granule});
    if (!known || (known->flags & WEIR_BE_GRANULE_EXPORT_FABRIC) == 0) return refuse(state);
    int32_t fd = -1;
    const weir_result result = export_fd(state, device, granule, &fd);
    if (result != WEIR_SUCCESS) return result;
    const Handle made{magic, getpid(), known->fd >= 0 ? known->fd : fd, lseek(fd, 0, SEEK_CUR)};
    if (known->fd >= 0)
      (void)close(fd);
    else
      granules.put({state, granule}, {known->flags, fd});
    *handle = {};
    std::memcpy(handle->bytes, &made, sizeof made);
    return WEIR_SUCCESS;
  }

  static weir_result import(weir_be_state *state, uint32_t device,
                            const weir_be_fabric_handle *handle, uint64_t bytes,
                            weir_be_granule *granule) {
    Handle named{};
    if (handle != nullptr) std::memcpy(&named, handle->bytes, sizeof named);
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/fd/%d", named.process, named.fd);
    const int fd = named.magic == magic ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0 || lseek(fd, named.offset, SEEK_SET) < 0) {
      if (fd >= 0) (void)close(fd);
      return refuse(state);
    }
    const weir_result result = real().granule_import(state, device, fd, bytes, granule);
    (void)close(fd);
    if (result == WEIR_SUCCESS) granules.put({state, *granule}, {0, -1});
    return result;
  }

  static void plant(weir_backend_table &t) {
    t.device_describe = [](weir_be_state *state, uint32_t device, weir_be_device *out) {
      const weir_result result = real().device_describe(state, device, out);
      if (result == WEIR_SUCCESS && out->struct_size >= 16 &&
          (out->capabilities & WEIR_CAP_EXPORT_FD) != 0)
        out->capabilities |= WEIR_CAP_EXPORT_FABRIC;
      return result;
    };
    t.stop = stop;
    t.granule_create = create;
    t.granule_destroy = destroy;
    t.granule_export = export_as_fd;
    t.granule_export_fabric = export_fabric;
    t.granule_import_fabric = import;
  }
};

constexpr Fault faults[] = {
    // granule_export_fabric: "A handle of a granule made with WEIR_BE_GRANULE_EXPORT_FABRIC".
    {"fabric_export_of_any_granule", "granules made for a descriptor only are exported to a fabric",
     "EX-027",
     [](weir_backend_table &t) {
       Fabric::plant(t);
       t.granule_export_fabric = [](weir_be_state *state, uint32_t device, weir_be_granule granule,
                                    weir_be_fabric_handle *handle) {
         const auto known = Fabric::granules.find({state, granule});
         if (known && known->flags == WEIR_BE_GRANULE_EXPORT_FD)
           Fabric::granules.put({state, granule},
                                {known->flags | WEIR_BE_GRANULE_EXPORT_FABRIC, known->fd});
         return Fabric::export_fabric(state, device, granule, handle);
       };
     }},
    // "how a granule may leave the process; said when it is made": a flag is leave for one way only.
    {"fabric_granule_has_descriptor", "a granule made for a fabric is exported as a descriptor",
     "EX-027",
     [](weir_backend_table &t) {
       Fabric::plant(t);
       t.granule_export = export_fd;
     }},
    // The same sentence: the flags are bits, and both may be given.
    {"fabric_excludes_descriptor", "a granule can't be made for a fabric and a descriptor at once",
     "EX-027",
     [](weir_backend_table &t) {
       Fabric::plant(t);
       t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                             weir_be_granule *granule) {
         return flags == (WEIR_BE_GRANULE_EXPORT_FD | WEIR_BE_GRANULE_EXPORT_FABRIC)
                    ? refuse(state, WEIR_ERROR_NOT_SUPPORTED)
                    : Fabric::create(state, device, bytes, flags, granule);
       };
     }},
    // "What names a granule": each handle its own, for as long as the granule lives.
    {"fabric_handle_of_first", "a second granule that is exported gets the first one's handle",
     "EX-022",
     [](weir_backend_table &t) {
       Fabric::plant(t);
       t.granule_export_fabric = [](weir_be_state *state, uint32_t device, weir_be_granule granule,
                                    weir_be_fabric_handle *handle) {
         static Book<std::pair<weir_be_state *, uint32_t>, std::pair<Key, weir_be_fabric_handle>>
             first;
         const weir_result result = Fabric::export_fabric(state, device, granule, handle);
         const auto before = first.find({state, device});
         if (result != WEIR_SUCCESS) return result;
         if (before && Fabric::granules.find(before->first))
           *handle = before->second;
         else
           first.put({state, device}, {{state, granule}, *handle});
         return result;
       };
     }},
    // granule_import_fabric: a handle is "good on every machine of the fabric", not for one import.
    {"fabric_handle_used_up", "a handle of a fabric can be imported once", "ER-017,EX-022,FA-006",
     [](weir_backend_table &t) {
       Fabric::plant(t);
       t.granule_import_fabric = [](weir_be_state *state, uint32_t device,
                                    const weir_be_fabric_handle *handle, uint64_t bytes,
                                    weir_be_granule *granule) {
         static Book<std::array<uint8_t, sizeof handle->bytes>, bool> used;
         std::array<uint8_t, sizeof handle->bytes> key{};
         std::memcpy(key.data(), handle->bytes, key.size());
         if (used.find(key)) return refuse(state);
         const weir_result result = Fabric::import(state, device, handle, bytes, granule);
         if (result == WEIR_SUCCESS) used.put(key, true);
         return result;
       };
     }},
    // "Ended by granule_destroy", which gives everything back.
    {"fabric_import_leaks", "each import from a fabric leaves a descriptor open", "EX-024",
     [](weir_backend_table &t) {
       Fabric::plant(t);
       t.granule_import_fabric = [](auto... rest) {
         const weir_result result = Fabric::import(rest...);
         if (result == WEIR_SUCCESS) (void)open("/dev/null", O_RDONLY | O_CLOEXEC);
         return result;
       };
     }},
};

}  // namespace

std::span<const Fault> subtle_fabric_faults() { return faults; }

}  // namespace weir::mutants
