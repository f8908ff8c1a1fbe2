// SPDX-License-Identifier: Apache-2.0
//
// Writes a finished tile of the picture into a buffer, by its address.
#version 460
#extension GL_EXT_buffer_reference : require

layout(local_size_x = 8, local_size_y = 8) in;
layout(set = 0, binding = 0, rgba8) readonly uniform image2D tile;
layout(buffer_reference, std430, buffer_reference_align = 4) writeonly buffer Pixels { uint pixel[]; };
layout(push_constant, std430) uniform Store { Pixels to; } store;

void main() {
  const ivec2 at = ivec2(gl_GlobalInvocationID.xy), size = imageSize(tile);
  if (any(greaterThanEqual(at, size))) return;
  store.to.pixel[at.y * size.x + at.x] = packUnorm4x8(imageLoad(tile, at));
}
