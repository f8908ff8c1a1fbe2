// SPDX-License-Identifier: Apache-2.0
//
// One thread of the pool's fuzzer: it makes random calls on buffers of its own. What it finds wrong it reports, and goes on; the run ends
// when anybody has.
#pragma once

#include "tests/fuzz/buffers.hpp"

namespace weir::fuzz {

class Worker : public Buffers {
 public:
  using Buffers::Buffers;

  void run(int steps) {
    begin();
    for (int i = 0; i < 6; ++i) create();
    for (int i = 0; i < steps && failures.load() == 0; ++i) step();
    end();
  }

 protected:
  void begin() {
    for (uint32_t d = 0; d < world_.devices; ++d) {
      for (size_t i = 0; i < streams_of_a_device; ++i) open_stream(d);
    }
    open_stream(WEIR_DEVICE_HOST);
  }
  void end() {
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

  void lease() {
    Set set;
    set.slot = below(streams_.size());
    const bool wide = !on_cpu(set) && below(8) == 0;  // whole buffers, as the hit path takes them
    const size_t count = 1 + below(on_cpu(set) ? 2 : wide ? 24 : 5);
    for (size_t i = 0; i < count; ++i) {
      const size_t b = below(models_.size());
      weir_use *use = add_use(&set, b, 0);
      if (use == nullptr) continue;
      use->mode = wide && below(4) != 0 ? uint32_t{WEIR_READ} : 1 + static_cast<uint32_t>(below(3));
      if (wide) continue;
      if (below(3) == 0) use_part(use, b);
      if (below(2) == 0) use->flags = WEIR_USE_ALLOW_REMOTE;
    }
    if (below(4) == 0) set.options.timeout_ns = below(2000000);
    if (!take(std::move(set))) return;
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
};

}  // namespace weir::fuzz
