// SPDX-License-Identifier: Apache-2.0
//
// FX over one block that lies in memory as a whole.

#include "core/codec/fx.hpp"

#include "core/codec/checksum.hpp"
#include "core/codec/fx_doubles.hpp"
#include "core/codec/fx_stream.hpp"

#include <algorithm>

namespace weir::codec {
namespace {

FxWindow window_of(Form form, const unsigned char *in, uint64_t raw) noexcept {
  FxCensus census;
  const uint32_t width = element_bytes(form);
  for_sample(in, raw / width, width,
             [&](uint64_t first, uint64_t count) { census.add(form, in + first * width, count); });
  return census.best(form);
}

}  // namespace

uint64_t fx_encode(Form form, const unsigned char *in, uint64_t raw, unsigned char *out,
                   uint64_t room, CpuLevel level) noexcept {
  if (form == Form::f64) return fx_encode_doubles(in, raw, out, room, level);
  if (!fx_supports(form)) return 0;
  FxWriter writer(form, window_of(form, in, raw), raw, out, room, level);
  const FxShape &shape = writer.shape();
  if (!writer.fits() || !writer.put(in, shape.groups)) return 0;
  return writer.finish(in + raw - shape.tail);
}

bool fx_decode(const unsigned char *in, uint64_t bytes, unsigned char *out, uint64_t raw,
               CpuLevel level, Stores stores) noexcept {
  if (fx_of_doubles(in, bytes)) return fx_decode_doubles(in, bytes, out, raw, level, nullptr);
  FxReader reader;
  if (!reader.open(in, bytes, raw, level) || !fx_supports(reader.shape().form)) return false;
  const FxShape &shape = reader.shape();
  return reader.get(out, shape.groups, stores) && reader.finish(out + raw - shape.tail);
}

bool fx_decode_summed(const unsigned char *in, uint64_t bytes, unsigned char *out, uint64_t raw,
                      CpuLevel level, DecodedSum *sum) noexcept {
  if (sum == nullptr) return fx_decode(in, bytes, out, raw, level);
  if (fx_of_doubles(in, bytes)) return fx_decode_doubles(in, bytes, out, raw, level, sum);
  FxReader reader;
  if (!reader.open(in, bytes, raw, level) || !fx_supports(reader.shape().form)) return false;
  const FxShape &shape = reader.shape();
  const uint64_t group = fx_group * element_bytes(shape.form), whole = DecodedSum::piece / group;
  for (uint64_t left = shape.groups; left > 0;) {
    const uint64_t now = std::min(left, whole);
    if (!reader.get(out, now)) return false;
    sum->add(out, now * group);
    out += now * group;
    left -= now;
  }
  if (!reader.finish(out)) return false;
  sum->add(out, shape.tail);
  return true;
}

uint64_t fx_estimate(Form form, const unsigned char *in, uint64_t raw) noexcept {
  if (form == Form::f64) return fx_estimate_doubles(in, raw);
  if (!fx_supports(form)) return 0;
  const FxShape shape(form, raw);
  return fx_header_bytes + shape.tail +
         window_of(form, in, raw).expected(form, shape.groups * fx_group);
}

}  // namespace weir::codec
