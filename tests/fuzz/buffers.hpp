// SPDX-License-Identifier: Apache-2.0
//
// The buffers of one thread of the pool's fuzzer, with the bytes that each of them must have, and its streams: how buffers are made,
// leased and destroyed, whoever decides which. What is found wrong is reported, and the thread goes on.
#pragma once

#include "tests/fuzz/caller.hpp"

#include <numeric>

namespace weir::fuzz {

class Buffers : public Blocks {
 public:
  using Blocks::Blocks;

 protected:
  static constexpr size_t streams_of_a_device = 2;

  void open_stream(uint32_t device) {
    weir_stream stream = nullptr;
    expect(weir_stream_create(world_.context, device, 0, &stream), "stream_create");
    streams_.push_back(stream);
  }

  void create() {
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    const uint64_t kind = below(4);
    desc.size = kind == 0   ? 1 + below(2000)
                : kind == 1 ? 1 + below(world_.page)
                            : 1 + below(world_.page * 5);
    if (below(4) == 0) desc.alignment = uint64_t{1} << below(13);
    desc.priority = static_cast<int32_t>(below(5)) - 2;
    desc.home = static_cast<uint32_t>(below(world_.devices));
    const weir_device users[] = {static_cast<weir_device>(below(world_.devices)),
                                 static_cast<weir_device>(below(world_.devices)), WEIR_DEVICE_HOST};
    desc.users = users;
    desc.user_count = static_cast<uint32_t>(below(4));
    if (below(3) == 0) desc.home = WEIR_DEVICE_ANY;
    if (below(3) == 0) desc.client = world_.clients[below(2)];
    if (below(8) == 0) desc.flags |= WEIR_BUFFER_SCRUB;
    if (world_.vmm && below(8) == 0) desc.flags |= WEIR_BUFFER_STABLE_ADDRESS;
    Model model;
    model.halves = below(8) == 0;
    if (model.halves) desc.element = WEIR_ELEMENT_F32;
    if (model.halves) desc.flags |= WEIR_BUFFER_LOSSY_BF16;
    if (world_.devices > 1 && below(5) == 0) return create_sharded(desc, std::move(model));
    model.bytes.resize(desc.size);
    expect(weir_buffer_create(world_.pool, &desc, &model.handle), "buffer_create");
    if (model.handle != nullptr) models_.push_back(std::move(model));
  }

  /// Over some of the devices, or all, in any order.
  void create_sharded(weir_buffer_desc desc, Model model) {
    std::vector<weir_device> devices(world_.devices);
    std::iota(devices.begin(), devices.end(), 0);
    std::shuffle(devices.begin(), devices.end(), random_);
    std::vector<uint32_t> weights(world_.devices);
    for (uint32_t &weight : weights) weight = static_cast<uint32_t>(1 + below(4));
    weir_shard_desc shards = WEIR_SHARD_DESC_INIT;
    shards.devices = devices.data();
    shards.device_count = static_cast<uint32_t>(2 + below(world_.devices - 1));
    if (below(2) == 0) shards.weights = weights.data();
    shards.policy = static_cast<uint32_t>(1 + below(2));
    if (shards.policy == WEIR_SHARD_STRIPED) shards.stripe = below(3) * world_.page;
    desc.shards = &shards;
    desc.home = WEIR_DEVICE_DEFAULT;
    desc.user_count = 0;
    desc.size = 1 + below(world_.page * 12);
    model.sharded = true;
    model.bytes.resize(desc.size);
    // Without VMM or a way from each to each.
    allow(weir_buffer_create(world_.pool, &desc, &model.handle), {WEIR_ERROR_NOT_SUPPORTED},
          "buffer_create, sharded");
    if (model.handle != nullptr) models_.push_back(std::move(model));
  }

  bool leased(size_t i) const {
    for (const Open &open : open_) {
      for (size_t b : open.buffers) {
        if (b == i) return true;
      }
    }
    return false;
  }

  void destroy(size_t i) {
    let_go(models_[i]);
    if (leased(i)) {
      if (weir_buffer_destroy(world_.pool, models_[i].handle) != WEIR_ERROR_BUSY) {
        report("destroying a leased buffer was not BUSY", world_.seed);
      }
      return;
    }
    expect(weir_buffer_destroy(world_.pool, models_[i].handle), "buffer_destroy");
    if (weir_buffer_destroy(world_.pool, models_[i].handle) != WEIR_ERROR_INVALID_HANDLE) {
      report("a dead handle was accepted", world_.seed);
    }
    if (models_[i].registered != nullptr) munmap(models_[i].registered, models_[i].registered_size);
    const size_t last = models_.size() - 1;
    for (Open &open : open_) {
      for (size_t &b : open.buffers) {
        if (b == last) b = i;
      }
    }
    models_[i] = std::move(models_[last]);
    models_.pop_back();
  }

  void compare(const Model &model, uint64_t offset, const Bytes &got) {
    if (std::memcmp(got.data(), model.bytes.data() + offset, got.size()) == 0) return;
    size_t wrong = 0, first = got.size(), last = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      if (got[i] == model.bytes[offset + i]) continue;
      ++wrong;
      first = std::min(first, i);
      last = i;
    }
    std::fprintf(stderr,
                 "buffer of %zu bytes, read [%llu, +%zu): %zu wrong bytes in [%zu, %zu], first is "
                 "%u for %u; %s\n",
                 model.bytes.size(), static_cast<unsigned long long>(offset), got.size(), wrong,
                 first, last, got[first], model.bytes[offset + first], model.past.c_str());
    report("buffer_read gave wrong bytes", world_.seed);
  }

  void check_all(Model &model) {
    Bytes got(model.bytes.size(), 0xee);
    expect(weir_buffer_read(world_.pool, model.handle, 0, got.size(), got.data()), "buffer_read");
    compare(model, 0, got);
  }

  void close_lease(size_t i) {
    expect(weir_release(open_[i].lease, open_[i].stream), "release");
    if (weir_release(open_[i].lease, open_[i].stream) != WEIR_ERROR_INVALID_HANDLE) {
      report("a lease was released twice", world_.seed);
    }
    open_.erase(open_.begin() + static_cast<long>(i));
  }
  void let_go(Model &model) {
    for (; model.holds != 0; --model.holds)
      expect(weir_unhold(world_.pool, model.handle), "unhold");
  }
  /// Whether a hold keeps a use from being granted, whatever else is so.
  static bool forbidden(const Model &model, uint32_t mode, weir_device device, bool remote) {
    if (model.holds == 0 || model.alone()) return model.holds != 0;
    if (mode == WEIR_READ) return false;
    if (model.hold_mode == WEIR_READ || device == WEIR_DEVICE_HOST) return true;
    return device != model.held_on && !model.sharded && !remote;
  }

  /// Some uses of different buffers, to be acquired together.
  struct Set {
    size_t slot = 0;  ///< of the stream
    std::vector<weir_use> uses;
    std::vector<size_t> buffers;  ///< of each use
    weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
    bool known = true;  ///< the operation's number is one that the pool has given
  };
  bool on_cpu(const Set &set) const { return set.slot == streams_.size() - 1; }
  /// Of the whole buffer, unless it is in the set already.
  weir_use *add_use(Set *set, size_t b, uint32_t mode) {
    if (std::find(set->buffers.begin(), set->buffers.end(), b) != set->buffers.end())
      return nullptr;
    weir_use use = WEIR_USE_INIT;
    use.buffer = models_[b].handle;
    use.mode = mode;
    set->uses.push_back(use);
    set->buffers.push_back(b);
    return &set->uses.back();
  }
  void use_part(weir_use *use, size_t b) {
    use->offset = below(models_[b].bytes.size());
    use->length = 1 + below(models_[b].bytes.size() - use->offset);
  }

  /// Acquires the set, and has a kernel check what it reads and write what it writes. The lease is the last of open_ then. False: it
  /// was refused, as it may be.
  bool take(Set set) {
    const bool cpu = on_cpu(set);
    bool conflict = false;
    bool refused = false;  // a hold forbids it
    bool sharded = false;
    for (size_t i = 0; i < set.uses.size(); ++i) {
      const Model &model = models_[set.buffers[i]];
      const weir_device device =
          cpu ? WEIR_DEVICE_HOST : static_cast<weir_device>(set.slot / streams_of_a_device);
      const bool remote = (set.uses[i].flags & WEIR_USE_ALLOW_REMOTE) != 0;
      conflict = conflict || leased(set.buffers[i]) || model.holds != 0;
      refused = refused || forbidden(model, set.uses[i].mode, device, remote);
      sharded = sharded || model.sharded;
    }
    weir_lease lease = nullptr;
    weir_stream stream = streams_[set.slot];
    const weir_result result =
        weir_acquire(world_.pool, stream, set.uses.data(), set.uses.size(), &set.options, &lease);
    if (result != WEIR_SUCCESS) {
      if (conflict && result == WEIR_ERROR_LEASE_CONFLICT) return false;
      if (!set.known && result == WEIR_ERROR_INVALID_ARGUMENT) return false;
      if (cpu && !world_.host_leases && result == WEIR_ERROR_NOT_SUPPORTED) return false;
      if (!cpu && sharded && result == WEIR_ERROR_NOT_SUPPORTED) return false;  // out of its reach
      allow(result, {WEIR_ERROR_WOULD_BLOCK, WEIR_ERROR_TIMEOUT, WEIR_ERROR_OVER_BUDGET},
            "acquire");
      return false;
    }
    if (refused) report("a lease was granted against a hold", world_.seed);
    if (!set.known) report("a number was taken that no operation has", world_.seed);
    if (sharded && !cpu) ++world_.shard_leases;
    work(set);
    open_.push_back(Open{lease, stream, std::move(set.buffers)});
    return true;
  }

 private:
  /// The kernel under a lease.
  void work(const Set &set) {
    auto job = std::make_unique<Job>();
    job->seed = world_.seed;
    for (size_t i = 0; i < set.uses.size(); ++i) {
      Model &model = models_[set.buffers[i]];
      const weir_use &use = set.uses[i];
      note(model, "lease", set.slot, use.mode, use.offset, use.length);
      const uint64_t length =
          use.length == WEIR_WHOLE ? model.bytes.size() - use.offset : use.length;
      Job::Piece piece;
      piece.at = reinterpret_cast<unsigned char *>(use.address);
      const auto from = model.bytes.begin() + static_cast<long>(use.offset);
      const auto to = from + static_cast<long>(length);
      piece.past = model.past;
      if (use.mode != WEIR_DISCARD_WRITE) piece.expected.assign(from, to);
      if (use.mode != WEIR_READ) {
        piece.written = noise_for(model, use.offset, length);
        std::copy(piece.written.begin(), piece.written.end(), from);
      }
      job->pieces.push_back(std::move(piece));
    }
    if (on_cpu(set)) {
      job->run();
    } else {
      expect(launch(streams_[set.slot], std::move(job)), "launch");
    }
  }

 protected:
  std::vector<weir_stream> streams_;
  std::vector<Model> models_;
  std::vector<Open> open_;
};

}  // namespace weir::fuzz
