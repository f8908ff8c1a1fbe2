// SPDX-License-Identifier: Apache-2.0
//
// Sunlight on a texture that is read by its address, between four texels each, and haze far away.
#version 460
#extension GL_EXT_buffer_reference : require

struct Vertex { float x, y, z, nx, ny, nz; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Mesh { Vertex vertex[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Texture { uint texel[]; };

layout(push_constant, std430) uniform Draw {
  mat4 camera;
  Mesh mesh;
  Texture texels;
  uint columns, rows;
  uint texture_size;
} draw;

layout(location = 0) in vec3 normal;
layout(location = 1) in vec2 place;
layout(location = 2) in float away;
layout(location = 0) out vec4 colour;

vec3 texel(uvec2 at) {
  const uint last = draw.texture_size - 1;
  at = min(at, uvec2(last));
  return unpackUnorm4x8(draw.texels.texel[at.y * draw.texture_size + at.x]).rgb;
}

void main() {
  const vec2 at = clamp(place, 0, 1) * float(draw.texture_size - 1), part = fract(at);
  const uvec2 low = uvec2(at);
  const vec3 surface = mix(mix(texel(low), texel(low + uvec2(1, 0)), part.x),
                           mix(texel(low + uvec2(0, 1)), texel(low + uvec2(1, 1)), part.x), part.y);
  const float sun = max(dot(normalize(normal), normalize(vec3(-0.6, 0.55, 0.35))), 0);
  const vec3 lit = surface * (vec3(0.36, 0.40, 0.46) + sun * vec3(1.05, 0.95, 0.78));
  const float haze = 1 - exp(-0.0011 * away * away);
  colour = vec4(mix(lit, vec3(0.70, 0.80, 0.92), haze), 1);
}
