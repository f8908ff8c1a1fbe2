// SPDX-License-Identifier: Apache-2.0
//
// A vertex of a mesh: a lattice of rows x columns, two triangles a cell. The mesh is read by its address; there is no vertex buffer
// to bind.
#version 460
#extension GL_EXT_buffer_reference : require

struct Vertex { float x, y, z, nx, ny, nz; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Mesh { Vertex vertex[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Texture { uint texel[]; };

layout(push_constant, std430) uniform Draw {
  mat4 camera;
  Mesh mesh;
  Texture texels;
  uint columns, rows;  // of vertices
  uint texture_size;
} draw;

layout(location = 0) out vec3 normal;
layout(location = 1) out vec2 place;  // on the texture
layout(location = 2) out float away;

void main() {
  const uvec2 corners[6] = {{0, 0}, {1, 0}, {0, 1}, {0, 1}, {1, 0}, {1, 1}};
  const uint cell = gl_VertexIndex / 6, across = draw.columns - 1;
  const uvec2 at = uvec2(cell % across, cell / across) + corners[gl_VertexIndex % 6];
  const Vertex v = draw.mesh.vertex[at.y * draw.columns + at.x];
  gl_Position = draw.camera * vec4(v.x, v.y, v.z, 1);
  normal = vec3(v.nx, v.ny, v.nz);
  place = vec2(at) / vec2(across, draw.rows - 1);
  away = gl_Position.w;
}
