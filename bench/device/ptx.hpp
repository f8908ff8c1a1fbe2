// SPDX-License-Identifier: Apache-2.0
//
// Two kernels in PTX, for the driver to compile: one that only computes, one that only moves memory. PTX 7.0 for
// sm_70 runs on every NVIDIA GPU since Volta.
//
//   weir_bench_compute(out, rounds)           eight independent chains of fused multiply-adds in registers; one store
//                                             a thread in the end, so that nothing can be left out
//   weir_bench_copy(to, from, count, rounds)  copies `count` pieces of 16 bytes, `rounds` times, by all threads in turn
#pragma once

namespace weir::bench {

inline constexpr const char *kernels_ptx = R"(
.version 7.0
.target sm_70
.address_size 64

.visible .entry weir_bench_compute(.param .u64 out, .param .u32 rounds)
{
  .reg .pred %more;
  .reg .b32 %block, %size, %thread, %index, %left;
  .reg .b64 %base, %at;
  .reg .f32 %x<8>, %scale, %step;

  ld.param.u64 %base, [out];
  ld.param.u32 %left, [rounds];
  mov.u32 %block, %ctaid.x;
  mov.u32 %size, %ntid.x;
  mov.u32 %thread, %tid.x;
  mad.lo.u32 %index, %block, %size, %thread;
  cvt.rn.f32.u32 %x0, %index;
  add.f32 %x1, %x0, 0f3F800000;
  add.f32 %x2, %x1, 0f3F800000;
  add.f32 %x3, %x2, 0f3F800000;
  add.f32 %x4, %x3, 0f3F800000;
  add.f32 %x5, %x4, 0f3F800000;
  add.f32 %x6, %x5, 0f3F800000;
  add.f32 %x7, %x6, 0f3F800000;
  mov.f32 %scale, 0f3F7FF972;
  mov.f32 %step, 0f3DCCCCCD;
again:
  fma.rn.f32 %x0, %x0, %scale, %step;
  fma.rn.f32 %x1, %x1, %scale, %step;
  fma.rn.f32 %x2, %x2, %scale, %step;
  fma.rn.f32 %x3, %x3, %scale, %step;
  fma.rn.f32 %x4, %x4, %scale, %step;
  fma.rn.f32 %x5, %x5, %scale, %step;
  fma.rn.f32 %x6, %x6, %scale, %step;
  fma.rn.f32 %x7, %x7, %scale, %step;
  sub.u32 %left, %left, 1;
  setp.ne.u32 %more, %left, 0;
  @%more bra again;
  add.f32 %x0, %x0, %x1;
  add.f32 %x2, %x2, %x3;
  add.f32 %x4, %x4, %x5;
  add.f32 %x6, %x6, %x7;
  add.f32 %x0, %x0, %x2;
  add.f32 %x4, %x4, %x6;
  add.f32 %x0, %x0, %x4;
  mul.wide.u32 %at, %index, 4;
  add.u64 %at, %base, %at;
  st.global.f32 [%at], %x0;
  ret;
}

.visible .entry weir_bench_copy(.param .u64 to, .param .u64 from, .param .u64 count, .param .u32 rounds)
{
  .reg .pred %inside, %more;
  .reg .b32 %block, %blocks, %size, %thread, %index, %threads, %left, %a, %b, %c, %d;
  .reg .b64 %to, %from, %count, %first, %stride, %i, %offset, %source, %target;

  ld.param.u64 %to, [to];
  ld.param.u64 %from, [from];
  ld.param.u64 %count, [count];
  ld.param.u32 %left, [rounds];
  mov.u32 %block, %ctaid.x;
  mov.u32 %blocks, %nctaid.x;
  mov.u32 %size, %ntid.x;
  mov.u32 %thread, %tid.x;
  mad.lo.u32 %index, %block, %size, %thread;
  mul.lo.u32 %threads, %blocks, %size;
  cvt.u64.u32 %first, %index;
  cvt.u64.u32 %stride, %threads;
round:
  mov.u64 %i, %first;
  setp.lt.u64 %inside, %i, %count;
  @!%inside bra next;
piece:
  shl.b64 %offset, %i, 4;
  add.u64 %source, %from, %offset;
  add.u64 %target, %to, %offset;
  ld.global.v4.u32 {%a, %b, %c, %d}, [%source];
  st.global.v4.u32 [%target], {%a, %b, %c, %d};
  add.u64 %i, %i, %stride;
  setp.lt.u64 %inside, %i, %count;
  @%inside bra piece;
next:
  sub.u32 %left, %left, 1;
  setp.ne.u32 %more, %left, 0;
  @%more bra round;
  ret;
}
)";

}  // namespace weir::bench
