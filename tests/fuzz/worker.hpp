// SPDX-License-Identifier: Apache-2.0
//
// One thread of the pool's fuzzer: it makes random calls on buffers of its own and holds the bytes that each of them must
// have. What it finds wrong it reports, and goes on; the run ends when anybody has.
#pragma once

#include "tests/fuzz/caller.hpp"

#include <numeric>

namespace weir::fuzz {

class Worker : public Blocks {
 public:
  using Blocks::Blocks;

  void run(int steps) {
    for (uint32_t d = 0; d < world_.devices; ++d) {
      for (size_t i = 0; i < streams_of_a_device; ++i) open_stream(d);
    }
    open_stream(WEIR_DEVICE_HOST);
    for (int i = 0; i < 6; ++i) create();
    for (int i = 0; i < steps && failures.load() == 0; ++i) step();
    while (!open_.empty()) close_lease(0);
    // What is freed without a stream, below, must be idle.
    if (has_blocks()) expect(weir_stream_synchronize(streams_[0]), "stream_synchronize");
    for (Model &model : models_) {
      let_go(model);
      check_all(model);
    }
    while (!models_.empty()) destroy(models_.size() - 1);
    for (weir_stream stream : streams_) expect(weir_stream_close(stream), "stream_close");
  }

 private:
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
    if (below(3) == 0) desc.client = world_.client;
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

  void lease() {
    const size_t slot = below(streams_.size());
    const bool on_cpu = slot == streams_.size() - 1;
    weir_stream stream = streams_[slot];
    const size_t count = 1 + below(on_cpu ? 2 : 5);
    std::vector<weir_use> uses;
    std::vector<size_t> buffers;
    bool conflict = false;
    bool refused = false;  // a hold forbids it
    bool sharded = false;
    for (size_t i = 0; i < count; ++i) {
      const size_t b = below(models_.size());
      bool twice = false;
      for (size_t other : buffers) twice = twice || other == b;
      if (twice) continue;
      weir_use use = WEIR_USE_INIT;
      use.buffer = models_[b].handle;
      use.mode = 1 + static_cast<uint32_t>(below(3));
      if (below(3) == 0) {
        use.offset = below(models_[b].bytes.size());
        use.length = 1 + below(models_[b].bytes.size() - use.offset);
      }
      if (below(2) == 0) use.flags = WEIR_USE_ALLOW_REMOTE;
      conflict = conflict || leased(b) || models_[b].holds != 0;
      const weir_device device =
          on_cpu ? WEIR_DEVICE_HOST : static_cast<weir_device>(slot / streams_of_a_device);
      const bool remote = (use.flags & WEIR_USE_ALLOW_REMOTE) != 0;
      refused = refused || forbidden(models_[b], use.mode, device, remote);
      sharded = sharded || models_[b].sharded;
      uses.push_back(use);
      buffers.push_back(b);
    }
    weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
    if (below(4) == 0) options.timeout_ns = below(2000000);
    weir_lease lease = nullptr;
    const weir_result result =
        weir_acquire(world_.pool, stream, uses.data(), uses.size(), &options, &lease);
    if (result != WEIR_SUCCESS) {
      if (conflict && result == WEIR_ERROR_LEASE_CONFLICT) return;
      if (on_cpu && !world_.host_leases && result == WEIR_ERROR_NOT_SUPPORTED) return;
      if (!on_cpu && sharded && result == WEIR_ERROR_NOT_SUPPORTED) return;  // out of its reach
      allow(result, {WEIR_ERROR_WOULD_BLOCK, WEIR_ERROR_TIMEOUT, WEIR_ERROR_OVER_BUDGET},
            "acquire");
      return;
    }
    if (refused) report("a lease was granted against a hold", world_.seed);
    if (sharded && !on_cpu) ++world_.shard_leases;
    auto job = std::make_unique<Job>();
    job->seed = world_.seed;
    for (size_t i = 0; i < uses.size(); ++i) {
      Model &model = models_[buffers[i]];
      note(model, "lease", slot, uses[i].mode, uses[i].offset, uses[i].length);
      const uint64_t length =
          uses[i].length == WEIR_WHOLE ? model.bytes.size() - uses[i].offset : uses[i].length;
      Job::Piece piece;
      piece.at = reinterpret_cast<unsigned char *>(uses[i].address);
      const auto from = model.bytes.begin() + static_cast<long>(uses[i].offset);
      const auto to = from + static_cast<long>(length);
      piece.past = model.past;
      if (uses[i].mode != WEIR_DISCARD_WRITE) piece.expected.assign(from, to);
      if (uses[i].mode != WEIR_READ) {
        piece.written = noise_for(model, uses[i].offset, length);
        std::copy(piece.written.begin(), piece.written.end(), from);
      }
      job->pieces.push_back(std::move(piece));
    }
    if (on_cpu) {
      job->run();
    } else {
      expect(launch(stream, std::move(job)), "launch");
    }
    open_.push_back(Open{lease, stream, buffers});
    if (below(3) != 0 || open_.size() > 2) close_lease(open_.size() - 1);
  }

  void access() {
    const size_t b = below(models_.size());
    Model &model = models_[b];
    const uint64_t offset = below(model.bytes.size());
    const uint64_t length = 1 + below(model.bytes.size() - offset);
    if (below(2) == 0) {
      Bytes got(length, 0xee);
      const weir_result result =
          weir_buffer_read(world_.pool, model.handle, offset, length, got.data());
      if (model.alone() != (result == WEIR_ERROR_LEASE_CONFLICT) && !leased(b))
        report("weir_buffer_read under a hold", world_.seed);
      if (result == WEIR_ERROR_LEASE_CONFLICT) return;
      expect(result, "buffer_read");
      compare(model, offset, got);
      return;
    }
    note(model, "write", 0, 0, offset, length);
    const Bytes fresh = noise_for(model, offset, length);
    const weir_result result =
        weir_buffer_write(world_.pool, model.handle, offset, length, fresh.data());
    const bool forbids = model.alone() || (model.holds != 0 && model.hold_mode == WEIR_READ);
    if (forbids != (result == WEIR_ERROR_LEASE_CONFLICT) && !leased(b))
      report("weir_buffer_write under a hold", world_.seed);
    if (result == WEIR_ERROR_LEASE_CONFLICT) return;
    if (world_.host_is_short && result == WEIR_ERROR_OVER_BUDGET) {
      // Bytes of the range before the failure may be new ones.
      expect(
          weir_buffer_read(world_.pool, model.handle, offset, length, model.bytes.data() + offset),
          "buffer_read after a refused write");
      return;
    }
    expect(result, "buffer_write");
    std::copy(fresh.begin(), fresh.end(), model.bytes.begin() + static_cast<long>(offset));
  }

  void hint() {
    if (world_.elastic && below(6) == 0) return change_devices();
    const size_t b = below(models_.size());
    Model &model = models_[b];
    weir_stream stream = streams_[below(streams_.size() - 1)];
    weir_use use = WEIR_USE(model.handle, WEIR_READ);
    if (below(4) == 0) use.flags = WEIR_USE_ALLOW_REMOTE;
    switch (below(8)) {
      case 7:
        return defragment();
      case 0:
        note(model, "prefetch", 0, 0, 0, 0);
        expect(weir_prefetch(world_.pool, stream, &use, 1), "prefetch");
        return;
      case 1: {
        weir_operation operation = {"op", &use, 1, 0, {0, 0}};
        const uint64_t flags = below(3) == 0 ? WEIR_ANNOUNCE_REPLACE : 0;
        expect(weir_announce(world_.pool, stream, &operation, 1, flags), "announce");
        return;
      }
      case 2:
        expect(
            weir_advise(world_.pool, model.handle, 0, WEIR_WHOLE, static_cast<uint32_t>(below(4))),
            "advise");
        return;
      case 3: {
        note(model, "discard", 0, 0, 0, 0);
        const weir_result result = weir_discard(world_.pool, model.handle, 0, WEIR_WHOLE);
        if (result == WEIR_ERROR_LEASE_CONFLICT && (leased(b) || model.holds != 0)) return;
        expect(result, "discard");
        // A hint for pages under way: only what is read back now can be relied on.
        expect(
            weir_buffer_read(world_.pool, model.handle, 0, model.bytes.size(), model.bytes.data()),
            "read");
        return;
      }
      case 4: {
        uint64_t freed = 0;
        const auto level = static_cast<uint32_t>(below(3));
        const uint64_t place = below(world_.devices + 1);
        const auto device =
            place == world_.devices ? WEIR_DEVICE_HOST : static_cast<uint32_t>(place);
        allow(weir_pool_trim(world_.pool, device, level, below(8) * world_.page, &freed), {},
              "trim");
        return;
      }
      case 5: {
        weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
        expect(weir_buffer_info_get(world_.pool, model.handle, 0, WEIR_WHOLE, &info), "query");
        const uint64_t sum = info.device_bytes + info.peer_bytes + info.host_bytes +
                             info.compressed_bytes + info.storage_bytes + info.unwritten_bytes +
                             info.lost_bytes;
        if (sum != model.bytes.size()) report("query does not add up", world_.seed);
        return;
      }
      default:
        expect(
            weir_buffer_set_priority(world_.pool, model.handle, static_cast<int32_t>(below(5)) - 2),
            "priority");
        return;
    }
  }

  /// Any device or all, with any bounds: what it does is seen in the bytes, whoever looks at them.
  void defragment() {
    weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
    if (below(3) == 0) desc.device = static_cast<uint32_t>(below(world_.devices));
    if (below(2) == 0) desc.max_moves = 1 + below(12);
    if (below(3) == 0) desc.max_bytes = below(world_.page * 4);
    if (below(6) == 0) desc.max_ns = below(200000);
    if (below(4) == 0) desc.max_cost_permille = static_cast<uint32_t>(1 + below(1500));
    desc.flags = below(4);
    weir_defragment_report report = WEIR_DEFRAGMENT_REPORT_INIT;
    expect(weir_pool_defragment(world_.pool, &desc, &report), "defragment");
    if ((desc.max_moves != 0 && report.copy_moves > desc.max_moves) ||
        (desc.max_bytes != 0 && report.moved_bytes > desc.max_bytes))
      report_bound();
    if (below(8) == 0) expect(weir_stream_synchronize(streams_[0]), "stream_synchronize");
  }
  void keep_nothing() {
    while (!open_.empty()) close_lease(0);
    // What is freed without a stream must be idle.
    if (has_blocks()) expect(weir_stream_synchronize(streams_[0]), "stream_synchronize");
    free_allocations();
    for (Model &model : models_) let_go(model);
  }
  /// A device leaves, or comes back; whoever uses it meanwhile is told so.
  void change_devices() {
    const auto device = static_cast<weir_device>(below(world_.devices));
    const uint64_t kind = below(8);
    if (kind == 0) {
      allow(weir_pool_cancel_remove(world_.pool, device), {WEIR_ERROR_INVALID_ARGUMENT}, "cancel");
    } else if (kind < 5) {
      if (below(4) != 0) keep_nothing();
      const weir_result result =
          weir_pool_remove_device(world_.pool, device, below(3) == 0 ? 0 : below(8'000'000));
      allow(result,
            {WEIR_ERROR_TIMEOUT, WEIR_ERROR_BUSY, WEIR_ERROR_CANCELLED, WEIR_ERROR_OVER_BUDGET,
             WEIR_ERROR_INVALID_ARGUMENT},
            "remove_device");
      if (result == WEIR_SUCCESS) ++world_.changes;
    } else {
      const weir_pool_device entry = {device, 0, world_.budgets[device], {0, 0}};
      allow(weir_pool_add_device(world_.pool, &entry), {WEIR_ERROR_INVALID_ARGUMENT}, "add_device");
    }
  }
  void report_bound() { report("a bound of weir_pool_defragment was passed", world_.seed); }

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
  /// A kernel on held memory without a lease. Its order with leases' work, which may still run, is ours to see to.
  void graph(Model &model) {
    for (weir_stream stream : streams_)
      expect(weir_stream_synchronize(stream), "stream_synchronize");
    weir_stream stream = streams_[model.held_on * streams_of_a_device];
    auto job = std::make_unique<Job>();
    job->seed = world_.seed;
    Job::Piece piece;
    piece.at = reinterpret_cast<unsigned char *>(model.held_at);
    piece.past = model.past;
    piece.expected = model.bytes;
    if (model.hold_mode != WEIR_READ) {
      note(model, "graph", 0, 0, 0, 0);
      model.bytes = piece.written = noise_for(model, 0, model.bytes.size());
    }
    job->pieces.push_back(std::move(piece));
    expect(launch(stream, std::move(job)), "launch");
    expect(weir_stream_synchronize(stream), "stream_synchronize");
  }
  void hold() {
    const size_t b = below(models_.size());
    Model &model = models_[b];
    const uint32_t mode = below(3) == 0 ? WEIR_READ : WEIR_READ_WRITE;
    const uint64_t flags = mode == WEIR_READ_WRITE && below(2) == 0 ? WEIR_HOLD_ALONE : 0;
    const auto device = static_cast<weir_device>(below(world_.devices));
    uint64_t address = 0;
    if (model.holds != 0 && below(2) == 0) {
      if (!leased(b)) graph(model);
      return;
    }
    if (model.holds != 0 && below(2) == 0) {
      expect(weir_unhold(world_.pool, model.handle), "unhold");
      --model.holds;
      return;
    }
    note(model, "hold", mode, flags, device, 0);
    const weir_result result =
        weir_hold_as(world_.pool, model.handle, device, mode, flags, &address);
    if (model.holds != 0) {
      const bool nests = mode == model.hold_mode && flags == 0 && model.hold_flags == 0 &&
                         (device == model.held_on || model.sharded);
      if (result == WEIR_SUCCESS && !nests) report("holds nest that should not", world_.seed);
      if (result == WEIR_SUCCESS) ++model.holds;
      allow(result, {nests ? WEIR_ERROR_NOT_SUPPORTED : WEIR_ERROR_LEASE_CONFLICT}, "hold");
      return;
    }
    if (result == WEIR_ERROR_NOT_SUPPORTED && model.sharded) return;  // out of its reach
    allow(result, {WEIR_ERROR_WOULD_BLOCK, WEIR_ERROR_OVER_BUDGET, WEIR_ERROR_LEASE_CONFLICT},
          "hold");
    if (result != WEIR_SUCCESS) return;
    model.holds = 1;
    model.hold_mode = mode;
    model.hold_flags = flags;
    model.held_on = device;
    model.held_at = address;
  }

  void registration() {
    const size_t b = below(models_.size());
    Model &model = models_[b];
    if (model.registered != nullptr) {
      note(model, "unregister", 0, 0, 0, 0);
      const weir_result result = weir_host_unregister(world_.pool, model.handle);
      if (model.alone() && result == WEIR_ERROR_LEASE_CONFLICT) return;
      allow(result, {WEIR_ERROR_BUSY, WEIR_ERROR_OVER_BUDGET}, "host_unregister");
      if (result != WEIR_SUCCESS) return;
      if (std::memcmp(model.registered, model.bytes.data(), model.bytes.size()) != 0) {
        report("registered memory does not hold the contents", world_.seed);
      }
      munmap(model.registered, model.registered_size);
      model.registered = nullptr;
      return;
    }
    const size_t size = (model.bytes.size() + 4095) / 4096 * 4096;
    void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const bool load = below(2) == 0;
    note(model, "register", load, 0, 0, 0);
    const Bytes fresh = noise_for(model, 0, model.bytes.size());
    std::memcpy(memory, fresh.data(), fresh.size());
    const weir_result result =
        weir_host_register(world_.pool, model.handle, memory, load ? WEIR_HOST_LOAD : 0);
    allow(result, {WEIR_ERROR_BUSY, WEIR_ERROR_NOT_SUPPORTED}, "host_register");
    if (result != WEIR_SUCCESS) {
      munmap(memory, size);
      return;
    }
    if (load) model.bytes = fresh;
    model.registered = static_cast<unsigned char *>(memory);
    model.registered_size = size;
  }

  void step() {
    const uint64_t what = below(100);
    if (below(40) == 0) validate(world_);
    if (models_.size() < 4 || (what < 6 && models_.size() < 24)) return create();
    if (what < 10) return destroy(below(models_.size()));
    if (what < 60) return lease();
    if (what < 74) return access();
    if (what < 86) return hint();
    if (what < 90) return hold();
    if (what < 94) return allocate(streams_[0]);
    if (what < 97) return registration();
    if (!open_.empty()) close_lease(below(open_.size()));
  }

  std::vector<weir_stream> streams_;
  std::vector<Model> models_;
  std::vector<Open> open_;
};

}  // namespace weir::fuzz
