// SPDX-License-Identifier: Apache-2.0
//
// The heat equation: computes the planes of one slab. Buffers are bound by their addresses, as a lease gives them. `precise`
// keeps the compiler from fusing or reordering operations, so that the CPU's result can be compared bit for bit.
#version 460
#extension GL_EXT_buffer_reference : require

layout(local_size_x = 16, local_size_y = 8, local_size_z = 1) in;

layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Cells { float cell[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) writeonly buffer Result { float cell[]; };

layout(push_constant, std430) uniform Slab {
  Cells below;  // the plane next to the slab, or any memory where the grid ends
  Cells here;
  Cells above;
  Result next;
  uint size, planes;
  uint first, last;  // 1 where the grid begins or ends with this slab
} slab;

void main() {
  const uvec3 at = gl_GlobalInvocationID;
  const uint n = slab.size, plane = n * n, i = at.y * n + at.x;
  if (at.x >= n || at.y >= n || at.z >= slab.planes) return;
  const float old = slab.here.cell[at.z * plane + i];
  precise float heat = old;
  const bool outermost = at.x == 0 || at.y == 0 || at.x + 1 == n || at.y + 1 == n ||
                         (at.z == 0 && slab.first != 0) ||
                         (at.z + 1 == slab.planes && slab.last != 0);
  if (!outermost) {
    const uint cell = at.z * plane + i;
    const float below = at.z > 0 ? slab.here.cell[cell - plane] : slab.below.cell[i];
    const float above =
        at.z + 1 < slab.planes ? slab.here.cell[cell + plane] : slab.above.cell[i];
    precise float around = slab.here.cell[cell - 1] + slab.here.cell[cell + 1];
    around = around + slab.here.cell[cell - n];
    around = around + slab.here.cell[cell + n];
    around = around + below;
    around = around + above;
    precise float lost = 6.0 * old;
    heat = around - lost;
    heat = 0.125 * heat;
    heat = old + heat;
  }
  slab.next.cell[at.z * plane + i] = heat;
}
