// SPDX-License-Identifier: Apache-2.0
//
// The shapes that a requirement walks: every device, every way in which a stream may be owned, every size. A
// stream is used through one handle and held through another, which means the same queue. What a shape's device
// lacks leaves that shape out, and a walk without any shape returns Outcome::nothing.
#pragma once

#include "conformance/fixtures.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace weir::conformance {

/// Whose the stream is that work is put into.
enum class Owner : uint8_t {
  made,             ///< made by stream_create
  wrapped,          ///< a wrapper of one that was made; the made one is its owner
  wrapped_twice,    ///< one of two wrappers; the other one is taken for its owner
  base_of_wrapped,  ///< the made one, which has a wrapper; the wrapper is taken for its owner
  standard,         ///< a wrapper of the runtime's default stream; another wrapper is its owner
  transfer,         ///< made for copies alone
};
inline const std::vector<Owner> every_owner{Owner::made,          Owner::wrapped,
                                            Owner::wrapped_twice, Owner::base_of_wrapped,
                                            Owner::standard,      Owner::transfer};
/// Those that take host functions.
inline const std::vector<Owner> calling_owners{Owner::made, Owner::wrapped, Owner::wrapped_twice,
                                               Owner::base_of_wrapped, Owner::standard};
std::string owner_name(Owner owner);

/// A queue of a device and the handles that mean it. Used on the thread that made it.
class Queue {
 public:
  Queue(Session &session, Owner owner, uint32_t device)
      : session_(session),
        kind_(owner),
        base_(session, device),
        first_(session, device),
        second_(session, device),
        holder_(session, device) {}
  /// The device has TRANSFER_STREAM if the owner is `transfer`. `there`: false where the runtime has no such stream.
  Outcome make(bool *there, Site site = Site::current());
  Stream &use() noexcept { return *use_; }
  /// Another handle of the same queue, or the same one.
  Stream &owner() noexcept { return *owner_; }
  /// The queue goes on when the gate is open: put in through the owner, or, where the queue takes no host functions,
  /// by a wait for another stream's fence. The device has HOST_CALL.
  Outcome hold(Gate &gate, Site site = Site::current());
  /// Ends the wrappers and leaves the stream that was made.
  Outcome end_wrappers(Site site = Site::current());
  /// Ends what is left.
  Outcome end(Site site = Site::current());
  bool calls() const noexcept { return kind_ != Owner::transfer; }

 private:
  Session &session_;
  Owner kind_;
  Stream base_, first_, second_, holder_;
  Stream *use_ = nullptr, *owner_ = nullptr;
};

/// Opens the gate, and waits until the streams have done what they were told, before what they use is taken down:
/// declared behind it, it goes first however the test ends.
class Settled {
 public:
  explicit Settled(Session &session, Gate *gate = nullptr) noexcept
      : session_(session), gate_(gate) {}
  ~Settled();
  Settled(const Settled &) = delete;
  Settled &operator=(const Settled &) = delete;
  void add(const Stream &stream) { streams_.push_back(&stream); }

 private:
  Session &session_;
  Gate *gate_;
  std::vector<const Stream *> streams_;
};

/// One of the shapes.
struct Shape {
  uint32_t device = 0;
  Owner owner = Owner::made;
  uint64_t bytes = 0;
  weir_be_device about{};  ///< the device
  uint64_t budget = 0;     ///< bytes of it that the requirement may hold
  uint64_t number = 0;     ///< how many shapes came before
  bool has(uint64_t capability) const noexcept {
    return (about.capabilities & capability) == capability;
  }
};

/// What is walked.
struct Axes {
  std::vector<Owner> owners{Owner::made};
  std::vector<uint64_t> sizes{0};
  uint64_t with = 0;  ///< WEIR_CAP_* that a device must have to be walked
};

/// Runs `body` for all shapes that apply, each with a queue of its own. A failure names the shape. Outcome::nothing if no
/// shape applied, or each body returned that.
Outcome shapes(Test &t, const Axes &axes,
               const std::function<Outcome(const Shape &, Queue &)> &body);

/// Enqueues a host function that counts its calls in `count`, which the caller keeps until it has run.
Outcome count_call(Session &session, const Stream &stream, std::atomic<uint32_t> &count,
                   Site site = Site::current());
/// Enqueues a batch.
Outcome batch(Session &session, const Stream &stream, const std::vector<weir_be_copy> &copies,
              Site site = Site::current());
/// The stream waits for the fence.
Outcome waits(Session &session, const Stream &stream, const Fence &fence,
              Site site = Site::current());
/// The stream is asked and answers that its work has finished: at once when nothing else may use it, else before the suite's
/// patience is over, asked again and again.
Outcome finished(Session &session, const Stream &stream, Owner owner, Site site = Site::current());

}  // namespace weir::conformance
