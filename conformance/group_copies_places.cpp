// SPDX-License-Identifier: Apache-2.0
//
// Copies by place: at the borders of mappings, and at random between all kinds of memory over several streams, against
// a model in ordinary memory. One copy never spans two mappings; what two streams touch is ordered by fences.
#include "conformance/places.hpp"
#include "conformance/shapes.hpp"

#include <algorithm>
#include <array>
#include <memory>

namespace weir::conformance {
namespace {

constexpr uint8_t edge_of_place = 0xC3;

/// Granules side by side with a hole before and behind them.
class Row {
 public:
  static constexpr uint32_t count = 3;
  Row(Test &t, const Shape &shape)
      : t_(t), device_(shape.device), unit_(shape.about.granule), range_(t, shape.device) {}
  ~Row() {
    if (!come_to_rest()) return;
    for (const uint32_t each : mapped_) {
      t_.keep(t_.expect(Site::current(), Want::exactly(WEIR_SUCCESS), "unmap", t_.table.unmap,
                        device_, at(each), unit_));
    }
  }
  Row(const Row &) = delete;
  Row &operator=(const Row &) = delete;
  Outcome make(bool as_run) {
    Test &t = t_;
    TRY(range_.reserve((count + 2) * unit_, unit_));
    std::array<weir_be_piece, count> pieces{};
    for (weir_be_piece &piece : pieces) {
      granules_.push_back(std::make_unique<Granule>(t_, device_));
      TRY(granules_.back()->create(unit_));
      piece = {granules_.back()->get(), 0, unit_};
    }
    if (as_run) MUST(map_run, device_, at(0), pieces.data(), count, nullptr, 0);
    for (uint32_t i = 0; i < count; ++i) {
      if (!as_run) MUST(map, device_, at(i), unit_, pieces.at(i).granule, 0, nullptr, 0);
      mapped_.push_back(i);
    }
    return {};
  }
  uint64_t at(uint32_t index) const noexcept { return range_.address() + (index + 1) * unit_; }
  uint64_t unit() const noexcept { return unit_; }

 private:
  Test &t_;
  uint32_t device_;
  uint64_t unit_;
  std::vector<std::unique_ptr<Granule>> granules_;
  Range range_;
  std::vector<uint32_t> mapped_;
};

/// Copies and fills that begin with a mapping or end with one, beside neighbours that must stay.
Outcome at_borders(Test &t, const Shape &shape, Stream &stream, const Row &row) {
  const uint64_t unit = row.unit(), edge = std::min(unit / 2, 4 * kib);
  Pinned in(t), out(t);
  Mover look(t, shape.device);
  TRY(in.allocate(edge));
  TRY(out.allocate(edge));
  TRY(look.make(edge));
  Settled settled(t);
  settled.add(stream);
  uint64_t seed = 0;
  for (uint32_t i = 0; i < Row::count; ++i) {
    for (const uint64_t bytes : {uint64_t{1}, uint64_t{7}, uint64_t{16}, edge - 1, edge}) {
      for (const bool last : {false, true}) {
        const uint64_t place = last ? row.at(i) + unit - bytes : row.at(i);
        const uint32_t other = (i + 1) % Row::count;
        const uint64_t there = last ? row.at(other) : row.at(other) + unit - bytes;
        make_pattern(in.bytes(), ++seed);
        for (uint32_t each = 0; each < Row::count; ++each) {
          TRY(stream.fill(row.at(each), edge_of_place, edge));
          TRY(stream.fill(row.at(each) + unit - edge, edge_of_place, edge));
        }
        TRY(stream.copy(place, in.address(), bytes));
        TRY(stream.copy(there, place, bytes));
        TRY(stream.copy(out.address(), there, bytes));
        TRY(stream.synchronize());
        TRY(check_same(out.bytes().first(bytes), in.bytes().first(bytes),
                       words("a copy of ", bytes, " bytes ", last ? "to the end of" : "to",
                             " mapping ", i, " and on to mapping ", other)));
        // All edges but the two places are as they were.
        for (uint32_t each = 0; each < Row::count; ++each) {
          for (const bool end : {false, true}) {
            const uint64_t begin = end ? row.at(each) + unit - edge : row.at(each);
            const bool used = (each == i && end == last) || (each == other && end != last);
            const uint64_t rest = used ? edge - bytes : edge;
            if (rest != 0)
              TRY(look.check_filled(used && !end ? begin + bytes : begin, rest, edge_of_place));
          }
        }
      }
    }
  }
  return {};
}

REQUIRE(
    "CP-024", vmm,
    "Copies and fills at the borders of mappings reach their last byte and not the neighbour.") {
  const Axes axes{{Owner::made, Owner::transfer}, {0}, WEIR_CAP_VMM};
  return shapes(t, axes, [&](const Shape &shape, Queue &queue) -> Outcome {
    for (const bool as_run : {false, true}) {
      if (as_run && !shape.has(WEIR_CAP_MAP_RUN)) continue;
      Row row(t, shape);
      TRY(row.make(as_run));
      TRY(at_borders(t, shape, queue.use(), row));
    }
    return {};
  });
}

// ---- at random

constexpr uint64_t cell_bytes = 2 * kib;
constexpr size_t lanes = 3;  ///< streams of a device

/// Memory, what it holds when all that was enqueued is done, and the fences of the streams that touched it last.
struct Cell {
  Cell(Test &t, Kind kind, uint32_t on)
      : memory(t, kind, on), device(of_host(kind) ? UINT32_MAX : on), model(cell_bytes) {}
  Memory memory;
  uint32_t device;  ///< UINT32_MAX: any stream may
  std::vector<std::byte> model;
  std::vector<std::shared_ptr<Fence>> touched;  ///< by stream; null: not since
};

class Game {
 public:
  Game(Test &t, uint64_t steps) : t_(t), steps_(steps) {}
  Outcome run() {
    TRY(make());
    Settled settled(t_);
    for (const auto &queue : queues_) settled.add(queue->use());
    for (uint64_t step = 0; step < steps_; ++step) {
      const Outcome outcome = play();
      if (!outcome.passed()) return Outcome::failure(words("step ", step, ": ", outcome.text()));
    }
    return end();
  }

 private:
  Outcome make() {
    Test &t = t_;
    constexpr Owner owners[2][lanes] = {{Owner::made, Owner::wrapped, Owner::transfer},
                                        {Owner::base_of_wrapped, Owner::standard, Owner::made}};
    for (uint32_t i = 0; i < std::min(t.device_count, 2U); ++i) {
      const uint32_t device = i == 0 ? t.device : t.other;
      weir_be_device about;
      TRY(t.describe(device, &about));
      for (Owner owner : owners[i]) {
        if (owner == Owner::transfer && (about.capabilities & WEIR_CAP_TRANSFER_STREAM) == 0)
          owner = Owner::made;
        auto queue = std::make_unique<Queue>(t, owner, device);
        bool there = false;
        TRY(queue->make(&there));
        if (there) queues_.push_back(std::move(queue));
      }
      for (const Kind kind :
           {Kind::plain, Kind::plain, Kind::mapped, Kind::pinned, Kind::pinned, Kind::registered}) {
        if ((about.capabilities & kind_needs(kind)) != kind_needs(kind)) continue;
        cells_.push_back(std::make_unique<Cell>(t, kind, device));
        TRY(cells_.back()->memory.make(cell_bytes, about.granule));
      }
    }
    for (const auto &cell : cells_) {
      cell->touched.resize(queues_.size());
      if (of_host(cell->memory.kind())) {
        std::fill_n(cell->memory.host().begin(), cell_bytes, std::byte{0});
      } else {
        Mover mover(t, cell->device);
        TRY(mover.make(cell_bytes));
        TRY(mover.fill(cell->memory.address(), 0, cell_bytes));
      }
    }
    return {};
  }

  /// The stream may touch the cell after what other streams do with it.
  Outcome enter(size_t lane, Cell &cell) {
    for (size_t each = 0; each < queues_.size(); ++each) {
      if (each != lane && cell.touched[each] != nullptr)
        TRY(waits(t_, queues_[lane]->use(), *cell.touched[each]));
    }
    return {};
  }

  Outcome play() {
    Test &t = t_;
    const size_t lane = t.random.below(queues_.size());
    Stream &stream = t.random.below(2) == 0 ? queues_[lane]->use() : queues_[lane]->owner();
    std::vector<Cell *> mine;
    for (const auto &cell : cells_)
      if (cell->device == UINT32_MAX || cell->device == stream.device()) mine.push_back(cell.get());
    Cell &to = *mine[t.random.below(mine.size())], &from = *mine[t.random.below(mine.size())];
    TRY(enter(lane, to));
    if (&from == &to) {
      if (of_host(to.memory.kind())) return {};
      const uint64_t bytes = 1 + t.random.below(cell_bytes);
      const uint64_t at = t.random.below(cell_bytes - bytes + 1);
      const auto value = static_cast<uint8_t>(t.random.next());
      TRY(stream.fill(to.memory.address() + at, value, bytes));
      std::fill_n(to.model.begin() + static_cast<std::ptrdiff_t>(at), bytes, std::byte{value});
      return leave(lane, stream, to, to);
    }
    TRY(enter(lane, from));
    const bool many = to.memory.kind() != from.memory.kind() && t.random.below(3) == 0 &&
                      t.table.copy_batch_async != nullptr && batches(stream.device());
    std::vector<weir_be_copy> copies;
    for (uint64_t part = 0, parts = many ? 1 + t.random.below(8) : 1; part < parts; ++part) {
      // Each in a part of its own, so that no two write the same bytes.
      const uint64_t room = cell_bytes / parts, bytes = 1 + t.random.below(room);
      const uint64_t write_at = part * room + t.random.below(room - bytes + 1);
      const uint64_t read_at = t.random.below(cell_bytes - bytes + 1);
      copies.push_back({to.memory.address() + write_at, from.memory.address() + read_at, bytes});
      std::copy_n(from.model.begin() + static_cast<std::ptrdiff_t>(read_at), bytes,
                  to.model.begin() + static_cast<std::ptrdiff_t>(write_at));
    }
    if (many) {
      TRY(batch(t, stream, copies));
    } else {
      TRY(stream.copy(copies[0].destination, copies[0].source, copies[0].bytes));
    }
    return leave(lane, stream, to, from);
  }

  bool batches(uint32_t device) {
    weir_be_device about;
    return t_.describe(device, &about).passed() && (about.capabilities & WEIR_CAP_BATCH_COPY) != 0;
  }

  /// The next copy that touches the cells waits for this, and for the last fence of each other stream that touched them.
  Outcome leave(size_t lane, const Stream &stream, Cell &to, Cell &from) {
    auto fence = std::make_shared<Fence>(t_);
    TRY(fence->record(stream));
    to.touched[lane] = fence;
    from.touched[lane] = fence;
    return {};
  }

  Outcome end() {
    for (const auto &queue : queues_) TRY(queue->use().synchronize());
    for (size_t i = 0; i < cells_.size(); ++i) {
      const Cell &cell = *cells_[i];
      const std::string what = words(kind_name(cell.memory.kind()), ", cell ", uint64_t{i});
      if (of_host(cell.memory.kind())) {
        TRY(check_same(cell.memory.host().first(cell_bytes), cell.model, what));
        continue;
      }
      Mover mover(t_, cell.device);
      TRY(mover.make(cell_bytes));
      TRY(mover.read(cell.memory.address(), cell_bytes));
      TRY(check_same(mover.staging.bytes(), cell.model, what));
    }
    return {};
  }

  Test &t_;
  uint64_t steps_;
  std::vector<std::unique_ptr<Cell>> cells_;
  std::vector<std::unique_ptr<Queue>> queues_;
};

REQUIRE("CP-029", always(),
        "Random copies, fills and batches over several streams and all kinds of memory leave what "
        "they leave in ordinary memory.") {
  Game game(t, 2000);
  return game.run();
}

}  // namespace
}  // namespace weir::conformance
