// SPDX-License-Identifier: Apache-2.0
//
// Granules that leave the process, and those that come from others.
#include "conformance/fixtures.hpp"
#include "conformance/process.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace weir::conformance {
namespace {

constexpr Needs exports = needs(WEIR_CAP_EXPORT_FD);
constexpr Needs fabric = needs(WEIR_CAP_EXPORT_FABRIC);

/// A granule made to be exported, mapped, with a pattern in it.
struct Exported {
  explicit Exported(Test &t) : granule(t), range(t), map(t), mover(t) {}
  Outcome make(Test &t, uint64_t seed) {
    TRY(granule.create(t.granule, WEIR_BE_GRANULE_EXPORT_FD));
    TRY(range.reserve(t.granule, t.granule));
    TRY(map.map(range.address(), t.granule, granule));
    TRY(mover.make(t.granule));
    return mover.write(range.address(), t.granule, seed);
  }
  Granule granule;
  Range range;
  Map map;
  Mover mover;
};

Outcome export_fd(Test &t, const Granule &granule, Descriptor *out) {
  int32_t fd = -1;
  MUST(granule_export, t.device, granule.get(), &fd);
  CHECK(fd >= 0, "the exported descriptor is ", fd);
  *out = Descriptor(fd);
  CHECK(fcntl(fd, F_GETFD) >= 0, "descriptor ", fd, " is not open");
  return {};
}

/// Imported memory, mapped here.
struct Imported {
  explicit Imported(Test &t) : granule(t), range(t), map(t), mover(t) {}
  Outcome make(Test &t, int fd) {
    TRY(granule.import(fd, t.granule));
    TRY(range.reserve(t.granule, t.granule));
    TRY(map.map(range.address(), t.granule, granule));
    return mover.make(t.granule);
  }
  Granule granule;
  Range range;
  Map map;
  Mover mover;
};

REQUIRE("EX-001", exports,
        "A granule that was made for it is exported as a descriptor, and that is closed on exec.") {
  Exported exported(t);
  Descriptor fd;
  TRY(exported.make(t, 1));
  TRY(export_fd(t, exported.granule, &fd));
  CHECK((fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0, "the descriptor survives exec");
  return {};
}

REQUIRE("EX-002", exports,
        "Each export gives a new descriptor, and closing one leaves the granule and the others.") {
  Exported exported(t);
  Descriptor first, second;
  TRY(exported.make(t, 1));
  TRY(export_fd(t, exported.granule, &first));
  TRY(export_fd(t, exported.granule, &second));
  CHECK(first.get() != second.get(), "two exports gave the descriptor ", first.get());
  first.reset();
  CHECK(fcntl(second.get(), F_GETFD) >= 0, "closing the first descriptor closed the second");
  TRY(exported.mover.check(exported.range.address(), t.granule, 1));
  TRY(exported.map.unmap());
  Imported imported(t);
  TRY(imported.make(t, second.get()));
  return imported.mover.check(imported.range.address(), t.granule, 1);
}

REQUIRE("EX-003", exports,
        "A granule that was not made to be exported is INVALID_ARGUMENT, and nothing is written.") {
  Granule granule(t);
  TRY(granule.create(t.granule));
  int32_t fd = -7;
  ANSWERS(WEIR_ERROR_INVALID_ARGUMENT, granule_export, t.device, granule.get(), &fd);
  CHECK(fd == -7, "the refused call wrote ", fd, " as a descriptor");
  return {};
}

REQUIRE("EX-004", exports, "An import in the same process holds the exported bytes.") {
  Exported exported(t);
  Descriptor fd;
  TRY(exported.make(t, 1));
  TRY(export_fd(t, exported.granule, &fd));
  TRY(exported.map.unmap());
  {
    Imported imported(t);
    TRY(imported.make(t, fd.get()));
    TRY(imported.mover.check(imported.range.address(), t.granule, 1));
    TRY(imported.mover.write(imported.range.address(), t.granule, 2));
  }
  TRY(exported.map.map(exported.range.address(), t.granule, exported.granule));
  return exported.mover.check(exported.range.address(), t.granule, 2);
}

REQUIRE("EX-005", exports,
        "The descriptor stays the caller's: an import neither closes nor needs it.") {
  Exported exported(t);
  Descriptor fd;
  TRY(exported.make(t, 1));
  TRY(export_fd(t, exported.granule, &fd));
  TRY(exported.map.unmap());
  Imported imported(t);
  TRY(imported.make(t, fd.get()));
  CHECK(fcntl(fd.get(), F_GETFD) >= 0, "the import closed the caller's descriptor");
  fd.reset();
  TRY(imported.mover.check(imported.range.address(), t.granule, 1));
  TRY(imported.mover.write(imported.range.address(), t.granule, 3));
  return imported.mover.check(imported.range.address(), t.granule, 3);
}

REQUIRE("EX-006", exports, "Ending an import leaves the exporter's granule and its bytes.") {
  Exported exported(t);
  TRY(exported.make(t, 1));
  for (int i = 0; i < 20; ++i) {
    Descriptor fd;
    Granule granule(t);
    TRY(export_fd(t, exported.granule, &fd));
    TRY(granule.import(fd.get(), t.granule));
    TRY(granule.destroy());
  }
  return exported.mover.check(exported.range.address(), t.granule, 1);
}

REQUIRE("EX-007", exports, "Exports and imports, refused ones too, leave no descriptors behind.") {
  Exported exported(t);
  TRY(exported.make(t, 1));
  const auto round = [&]() -> Outcome {
    Descriptor fd;
    Granule granule(t);
    TRY(export_fd(t, exported.granule, &fd));
    TRY(granule.import(fd.get(), t.granule));
    weir_be_granule refused = 0;
    REFUSED_SOMEHOW(granule_import, t.device, -1, t.granule, &refused);
    REFUSED(granule_import, t.device, fd.get(), 0, &refused);
    return granule.destroy();
  };
  TRY(round());
  const Holdings before_all = holdings();
  for (int i = 0; i < 100; ++i) TRY(round());
  return holdings_back(before_all, 4);
}

REQUIRE("EX-008", exports, "What is no exported memory is not imported, and nothing is written.") {
  const Descriptor null(open("/dev/null", O_RDWR | O_CLOEXEC));
  int ends[2] = {-1, -1};
  CHECK(pipe2(ends, O_CLOEXEC) == 0, "no pipe");
  const Descriptor in(ends[0]), out(ends[1]);
  for (const int fd : {-1, 100000, null.get(), in.get()}) {
    weir_be_granule granule = untouched;
    REFUSED_SOMEHOW(granule_import, t.device, fd, t.granule, &granule);
    CHECK(granule == untouched, "the refused call wrote ", granule, " as a handle");
  }
  CHECK(fcntl(null.get(), F_GETFD) >= 0, "a refused import closed the caller's descriptor");
  return {};
}

REQUIRE("EX-009", exports, "An import whose size is 0 or no multiple of the granule is refused.") {
  Exported exported(t);
  Descriptor fd;
  TRY(exported.make(t, 1));
  TRY(export_fd(t, exported.granule, &fd));
  for (const uint64_t bytes : {uint64_t{0}, t.granule / 2, t.granule + 1}) {
    weir_be_granule granule = 0;
    REFUSED(granule_import, t.device, fd.get(), bytes, &granule);
    CHECK(granule == 0, "the refused call wrote ", granule, " as a handle");
  }
  return {};
}

// ---- with another process

/// Gets a descriptor, checks pattern 1 behind it, writes pattern 2, and ends.
HELPER(import_and_change) {
  uint64_t value = 0;
  Descriptor fd;
  TRY(channel.receive(&value, &fd));
  CHECK(fd.get() >= 0, "no descriptor came");
  Imported imported(t);
  TRY(imported.make(t, fd.get()));
  TRY(imported.mover.check(imported.range.address(), t.granule, 1));
  TRY(imported.mover.write(imported.range.address(), t.granule, 2));
  TRY(channel.send(1));
  return channel.receive(&value);  // waits for leave to go
}

/// Makes memory with pattern 1, hands it out, and waits to be killed.
HELPER(export_and_wait) {
  Exported exported(t);
  Descriptor fd;
  TRY(exported.make(t, 1));
  TRY(export_fd(t, exported.granule, &fd));
  TRY(channel.send(1, fd.get()));
  uint64_t value = 0;
  return channel.receive(&value);
}

REQUIRE("EX-010", exports,
        "Another process imports the descriptor and sees the bytes, and the exporter sees what it "
        "writes.") {
  Exported exported(t);
  Descriptor fd;
  Peer peer(t);
  uint64_t value = 0;
  TRY(exported.make(t, 1));
  TRY(export_fd(t, exported.granule, &fd));
  TRY(peer.start("import_and_change"));
  TRY(peer.channel.send(1, fd.get()));
  fd.reset();
  TRY(peer.channel.receive(&value));
  TRY(exported.mover.check(exported.range.address(), t.granule, 2));
  TRY(peer.channel.send(1));
  TRY(peer.join());
  return exported.mover.check(exported.range.address(), t.granule, 2);
}

REQUIRE("EX-011", exports, "An importer that dies leaves the exporter's memory as it is.") {
  Exported exported(t);
  Descriptor fd;
  Peer peer(t);
  uint64_t value = 0;
  TRY(exported.make(t, 1));
  TRY(export_fd(t, exported.granule, &fd));
  TRY(peer.start("import_and_change"));
  TRY(peer.channel.send(1, fd.get()));
  TRY(peer.channel.receive(&value));
  peer.kill();
  TRY(exported.mover.check(exported.range.address(), t.granule, 2));
  TRY(exported.mover.write(exported.range.address(), t.granule, 3));
  return exported.mover.check(exported.range.address(), t.granule, 3);
}

REQUIRE("EX-012", exports,
        "An exporter that dies does not take its importer along: the importer ends its things and "
        "goes on.") {
  Peer peer(t);
  uint64_t value = 0;
  Descriptor fd;
  TRY(peer.start("export_and_wait"));
  TRY(peer.channel.receive(&value, &fd));
  CHECK(fd.get() >= 0, "no descriptor came");
  {
    Imported imported(t);
    TRY(imported.make(t, fd.get()));
    TRY(imported.mover.check(imported.range.address(), t.granule, 1));
    peer.kill();
    // What the memory holds now is not promised; the way to it must not crash.
    (void)imported.mover.read(imported.range.address(), t.granule);
  }
  Mapped own(t);
  Mover mover(t);
  TRY(own.make(t.granule, t.granule));
  TRY(mover.make(t.granule));
  TRY(mover.write(own.address(), t.granule, 1));
  return mover.check(own.address(), t.granule, 1);
}

REQUIRE("EX-013", exports,
        "Two granules that are exported stay two: each descriptor names its own.") {
  Exported a(t), b(t);
  Descriptor fd_a, fd_b;
  TRY(a.make(t, 1));
  TRY(b.make(t, 2));
  TRY(export_fd(t, a.granule, &fd_a));
  TRY(export_fd(t, b.granule, &fd_b));
  TRY(a.map.unmap());
  TRY(b.map.unmap());
  Imported from_b(t), from_a(t);
  TRY(from_b.make(t, fd_b.get()));
  TRY(from_a.make(t, fd_a.get()));
  TRY(from_a.mover.check(from_a.range.address(), t.granule, 1));
  return from_b.mover.check(from_b.range.address(), t.granule, 2);
}

REQUIRE("EX-014", exports, "A granule made to be exported is otherwise like any other.") {
  Exported exported(t);
  TRY(exported.make(t, 1));
  TRY(exported.map.unmap());
  TRY(exported.map.map(exported.range.address(), t.granule, exported.granule));
  TRY(exported.mover.check(exported.range.address(), t.granule, 1));
  REFUSED(granule_destroy, t.device, exported.granule.get());
  return exported.mover.check(exported.range.address(), t.granule, 1);
}

// ---- over a fabric

REQUIRE("EX-015", fabric,
        "A granule made for it is exported over the fabric, and its import holds the bytes.") {
  Granule granule(t), other(t);
  Range range(t);
  Mover mover(t);
  TRY(granule.create(t.granule, WEIR_BE_GRANULE_EXPORT_FABRIC));
  TRY(range.reserve(t.granule, t.granule));
  TRY(mover.make(t.granule));
  {
    Map map(t);
    TRY(map.map(range.address(), t.granule, granule));
    TRY(mover.write(range.address(), t.granule, 1));
  }
  weir_be_fabric_handle handle{};
  weir_be_granule imported = 0;
  MUST(granule_export_fabric, t.device, granule.get(), &handle);
  MUST(granule_import_fabric, t.device, &handle, t.granule, &imported);
  other.adopt(imported);
  Map map(t);
  TRY(map.map(range.address(), t.granule, other));
  return mover.check(range.address(), t.granule, 1);
}

REQUIRE("EX-016", fabric, "A granule that was not made for it is not exported over the fabric.") {
  Granule granule(t);
  TRY(granule.create(t.granule));
  weir_be_fabric_handle handle{};
  REFUSED(granule_export_fabric, t.device, granule.get(), &handle);
  for (const uint8_t byte : handle.bytes) CHECK(byte == 0, "the refused call wrote a handle");
  return {};
}

REQUIRE(
    "EX-017", exports,
    "An import of more than was exported gives no memory beyond it: it is refused, or the map.") {
  Exported exported(t);
  Descriptor fd;
  TRY(exported.make(t, 1));
  TRY(export_fd(t, exported.granule, &fd));
  weir_be_granule imported = 0;
  if (CALL(granule_import, t.device, fd.get(), 2 * t.granule, &imported) < 0) return {};
  Granule larger(t);
  larger.adopt(imported);
  Range range(t);
  TRY(range.reserve(2 * t.granule, t.granule));
  REFUSED_SOMEHOW(map, t.device, range.address(), 2 * t.granule, imported, 0, nullptr, 0);
  REFUSED_SOMEHOW(map, t.device, range.address(), t.granule, imported, t.granule, nullptr, 0);
  return {};
}

}  // namespace
}  // namespace weir::conformance
