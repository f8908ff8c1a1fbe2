// SPDX-License-Identifier: Apache-2.0
//
// A random model of everything: what each byte of each cell holds after all that was enqueued so far, and which work comes
// before which. Each step makes one call, or a few, that the header allows; hazards between streams are ordered by fences that
// the model chooses. Every random choice follows from the seed and from the choices before it, never from time or from other
// threads, so that a seed gives the same steps. Each thread has an Actor; cells that all of them use are in Common.
#pragma once

#include "conformance/process.hpp"
#include "conformance/registered.hpp"
#include "conformance/shapes.hpp"
#include "conformance/standing.hpp"
#include "conformance/walks.hpp"

#include <array>
#include <deque>
#include <memory>

namespace weir::conformance::model {

/// So many of the latest things done to a cell are kept, for the text of a failure.
inline constexpr size_t most_history = 10;

/// Of an actor at a time.
inline constexpr uint64_t most_lanes = 8;

/// Of each lane how much is known to come before something; lanes beyond its end: nothing.
using Clock = std::vector<uint64_t>;
void join(Clock &into, const Clock &other);
bool covers(const Clock &clock, uint32_t lane, uint64_t at) noexcept;

/// A place in a lane's order.
struct Point {
  uint32_t lane = 0;
  uint64_t at = 0;  ///< 0: before everything
};

/// Shutting a gate, and entries that may wait for any stream's work, such as frees, exclude each other. One gate is shut at a
/// time: runtimes may have one thread for all host functions.
class Turns {
 public:
  void begin_gate();
  void end_gate();
  void begin_memory();
  void end_memory();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool gate_ = false;
  uint32_t memory_ = 0;
};

/// A recorded fence and what comes before it. Shared by threads after it was made, and constant.
struct Mark {
  explicit Mark(Session &session) : fence(session) {}
  Fence fence;
  uint32_t lane = 0;
  Clock clock;
  bool calls = false;  ///< host functions, or other threads' work, may be before it
  uint64_t held = 0;   ///< the gate behind which it stands for sure
  uint64_t maybe = 0;  ///< the gate that it may wait for
};
using MarkPointer = std::shared_ptr<Mark>;

/// A stream of one actor.
struct Lane {
  Lane(Session &session, Owner whose, uint32_t on)
      : queue(session, whose, on), owner(whose), device(on) {}
  Queue queue;
  Owner owner;
  uint32_t device, number = 0;
  Clock clock;               ///< what comes before the next call
  uint64_t count = 0;        ///< calls so far
  uint64_t outstanding = 0;  ///< calls since all had finished
  bool calls = false;        ///< host functions, or other threads' work, may be among them
  bool wrapped = true;       ///< its wrappers are there
  uint64_t held = 0, maybe = 0;
};

/// Bytes of a store that share their hazards.
struct Spot {
  uint64_t begin = 0, end = 0;
  bool known = false;  ///< they were written once
  Point write{};
  std::vector<Point> reads;
};

enum class Sort : uint8_t { plain, granule, pinned, registered };

/// Memory, whatever addresses it has.
struct Store {
  uint64_t number = 0;
  Sort sort = Sort::plain;
  uint32_t device = 0;
  std::vector<std::byte> holds;
  std::vector<Spot> spots;
  std::unique_ptr<Plain> plain;
  std::unique_ptr<Pinned> pinned;
  std::unique_ptr<Pages> pages;
  std::unique_ptr<Registered> registered;
  std::vector<std::unique_ptr<Granule>> handles;  ///< the one that was made, then imports
  uint64_t leaves = 0;                            ///< WEIR_BE_GRANULE_*: made to be exported
  uint32_t maps = 0;
  std::deque<std::string> history;
  bool of_host() const noexcept { return sort == Sort::pinned || sort == Sort::registered; }
  uint64_t bytes() const noexcept { return holds.size(); }
};

/// Addresses of a device in which stores are mapped.
struct Area {
  Area(Session &session, uint32_t on) : range(session, on), device(on) {}
  Range range;
  uint32_t device;
  uint64_t unit = 0;  ///< of a place; a multiple of the granule of every device that maps here
  std::vector<bool> taken;
};

/// A store, or a part of one, at an address.
struct Window {
  Store *store = nullptr;
  uint64_t offset = 0, bytes = 0, address = 0;
  std::vector<bool> seen_by;  ///< devices
  Area *area = nullptr;  ///< where it is mapped, nullptr: it has its address as long as it lives
  uint64_t place = 0, places = 0;
};

/// Bytes of a window, and the lane that will use them.
struct Piece {
  Window *window = nullptr;
  uint64_t at = 0, bytes = 0;
  uint64_t address() const noexcept { return window->address + at; }
  uint64_t begin() const noexcept { return window->offset + at; }  ///< in its store
  uint64_t end() const noexcept { return begin() + bytes; }
};

/// A host function's work and what it found.
struct Call {
  std::byte *memory = nullptr;
  std::vector<std::byte> wanted;  ///< or what it writes
  bool writes = false;
  Point point{};
  std::string text;
  std::atomic<uint32_t> ran{0};
  std::atomic<uint64_t> wrong{UINT64_MAX};  ///< the first byte that was not as wanted
};

/// A cell that all threads use, each behind the fences of the others.
struct Shared {
  std::mutex mutex;
  std::unique_ptr<Plain> plain;  ///< of a device, or
  std::unique_ptr<Pinned> pinned;
  uint32_t device = 0;
  uint64_t address = 0;
  std::vector<std::byte> holds;
  MarkPointer write;
  std::vector<MarkPointer> reads;
  std::deque<std::string> history;
};

struct Common {
  explicit Common(Test &test) : t(test) {}
  /// Looks at the devices and enables the peers.
  Outcome prepare();
  Outcome make_shared();
  /// Reads the shared cells and frees them; no actor is left.
  Outcome end_shared();

  Test &t;
  std::vector<DeviceFacts> devices;
  std::vector<std::vector<bool>> reach;  ///< both ways
  std::vector<std::unique_ptr<Shared>> shared;
  Turns turns;
  uint32_t threads = 1;
  bool hands_over = false;  ///< another thread may use what an actor has made
  std::atomic<bool> failed{false};
  std::atomic<uint64_t> steps{0};
};

class Actor {
 public:
  Actor(Common &common, uint32_t index, uint64_t seed);
  ~Actor();
  Actor(const Actor &) = delete;
  Actor &operator=(const Actor &) = delete;
  /// The steps. A failure tells the story.
  Outcome run(uint64_t steps);
  /// A look at everything, and all is given back; on another thread too where the devices allow it.
  Outcome end();

 private:
  // model.cpp: what is done, and the story
  Outcome steps(uint64_t count);
  Outcome told(const Outcome &outcome);
  Outcome begin();
  Outcome step();
  Outcome step_work(uint64_t choice);
  Outcome step_memory(uint64_t choice);
  void say(const std::string &text, Store *one = nullptr, Store *two = nullptr);
  Outcome refuse();
  Outcome finish();
  const DeviceFacts &facts(uint32_t device) const;
  uint64_t size(uint64_t most);
  uint64_t below(uint64_t end) { return random_.below(end); }
  bool one_in(uint64_t count) { return random_.below(count) == 0; }

  // model_order.cpp: lanes, fences, gates, what comes before what
  Outcome make_lane(uint32_t device, Owner owner);
  Outcome end_lane();
  Stream &handle(Lane &lane);
  Lane &any_lane();
  void tick(Lane &lane, bool call = false);
  Outcome record(Lane &lane, MarkPointer *mark);
  Outcome wait_for(Lane &lane, const MarkPointer &mark);
  /// What is enqueued on the lane from now on runs after the point.
  Outcome after(Lane &lane, const Point &point);
  Outcome find_mark(const Point &point, MarkPointer *mark);
  /// The host waits for the point.
  Outcome host_after(const Point &point);
  Outcome synchronize(Lane &lane);
  Outcome wait_mark(const MarkPointer &mark, bool bounded);
  Outcome ask();
  Outcome shut_gate();
  Outcome open_gate();
  bool maybe_held(const Lane &lane) const noexcept { return gate_ && lane.maybe == gates_; }
  bool maybe_held(const Mark &mark) const noexcept { return gate_ && mark.maybe == gates_; }
  Outcome host_knows(const Clock &clock);
  Outcome room(Lane &lane, uint64_t calls = 8);

  // model_work.cpp: copies, fills, host functions
  bool pick(Lane &lane, uint64_t most, Piece *piece);
  Outcome before_read(Lane &lane, const Piece &piece);
  Outcome before_write(Lane &lane, const Piece &piece);
  void did_read(const Lane &lane, const Piece &piece);
  void did_write(const Lane &lane, const Piece &piece);
  Outcome copy();
  Outcome fill();
  Outcome fill(Lane &lane, const Piece &piece, uint8_t value);
  Outcome batch();
  Outcome call();
  Outcome touch();
  Outcome share();
  Outcome look(Window &window);
  Outcome settle(Store &store, uint64_t begin, uint64_t end);

  // model_memory.cpp: stores and windows
  Outcome allocate();
  Outcome make_plain(uint32_t device, uint64_t bytes);
  Outcome make_host(bool registered, uint64_t bytes);
  Outcome make_granule();
  Outcome make_areas();
  bool maps_here(uint32_t device) const;
  Outcome free_one();
  Outcome free_store(Store *store);
  bool may_map(const Store &store) const;
  /// A whole granule, or a part of one; false if there is none to map.
  bool choose_part(uint32_t device, Window *window);
  bool find_place(uint32_t device, uint64_t bytes, Window *window);
  std::vector<uint32_t> choose_peers(uint32_t device);
  Outcome map_one(Store *store);
  Outcome map_run();
  Outcome add_window(std::unique_ptr<Window> window, const std::vector<uint32_t> &peers);
  Outcome unmap_one();
  Outcome unmap(Window *window);
  Outcome unmap_run();
  Outcome access_add();
  Outcome export_import();
  std::vector<Window *> neighbours(Window *first);
  void forget(const Window *window);
  Outcome reserve();

  Common &common_;
  Test &t;
  const uint32_t index_;
  Random random_;
  uint64_t step_ = 0, numbers_ = 0;
  std::deque<std::string> story_;
  Store *guilty_ = nullptr;  ///< whose history the story tells
  const Shared *guilty_shared_ = nullptr;

  std::vector<uint64_t> budget_;  ///< bytes left of each device; the last is the host's
  std::vector<std::unique_ptr<Store>> stores_;
  std::vector<std::unique_ptr<Area>> areas_;
  std::vector<std::unique_ptr<Window>> windows_;
  std::unique_ptr<Standing> standing_;
  std::unique_ptr<Pinned> staging_;
  std::deque<std::unique_ptr<Range>> ranges_;  ///< nothing is ever mapped in them

  std::deque<std::unique_ptr<Call>> calls_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  uint32_t lane_numbers_ = 0;
  std::deque<MarkPointer> marks_;
  Clock host_;
  std::unique_ptr<Gate> gate_;
  uint64_t gates_ = 0, gate_ends_ = 0;
  Lane *gate_lane_ = nullptr;
};

}  // namespace weir::conformance::model
