/* SPDX-License-Identifier: Apache-2.0
 *
 * scene_world.h - what vulkan_scene draws: a landscape in patches with balloons over it, made from numbers. Each object is a mesh, a
 * lattice of vertices, and a texture.
 */
#ifndef WEIR_EXAMPLES_SCENE_WORLD_H
#define WEIR_EXAMPLES_SCENE_WORLD_H

#include <stdint.h>

enum {
  PATCHES = 12, /* along each side of the landscape */
  BALLOONS = 6,
  OBJECTS = PATCHES * PATCHES + BALLOONS,
  COLUMNS = 49, /* vertices of a mesh, along and across */
  TEXTURE = 128,
  MESH_BYTES = COLUMNS * COLUMNS * 24,
  TEXTURE_BYTES = TEXTURE * TEXTURE * 4
};

typedef struct {
  float position[3], normal[3];
} vertex;

/* Makes an object; `least` and `most` become the box that it is in. */
void make_object(uint32_t object, vertex mesh[COLUMNS * COLUMNS],
                 uint32_t texture[TEXTURE * TEXTURE], float least[3], float most[3]);

/* The camera for a picture of these proportions, column by column. */
void make_camera(float width_to_height, float camera[16]);

#endif
