/* SPDX-License-Identifier: Apache-2.0
 *
 * scene_draw.h - the Vulkan of vulkan_scene: a colour and a depth image of one tile, a graphics pipeline that draws a mesh by its
 * address, and a compute pipeline that stores the tile in a buffer. Nothing here knows of leases.
 */
#ifndef WEIR_EXAMPLES_SCENE_DRAW_H
#define WEIR_EXAMPLES_SCENE_DRAW_H

#include "launch.h"

enum { TILE = 96 /* pixels along and across */ };

typedef struct {
  VkImage image;
  VkDeviceMemory memory;
  VkImageView view;
} attachment;

typedef struct {
  VkDevice device;
  attachment colour, depth;
  VkRenderPass pass;
  VkFramebuffer frame;
  program draw, store;
  VkDescriptorSetLayout sets;
  VkDescriptorPool descriptors;
  VkDescriptorSet tile;
} renderer;

/* The push constants of a draw. */
typedef struct {
  float camera[16];
  uint64_t mesh, texture;
  uint32_t columns, rows, texture_size;
} draw_constants;

/* Makes all of it on the launcher's device. The images are the program's own: Weir has buffers only. */
renderer renderer_start(launcher *l);
void renderer_finish(renderer *r);

/* Draws go between these two. `x` and `y` are the tile's place in a picture of width x height pixels; `clear` empties it first. */
void pass_begin(const renderer *r, VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t width,
                uint32_t height, int clear);
void pass_draw(const renderer *r, VkCommandBuffer commands, const draw_constants *what);
void pass_end(VkCommandBuffer commands);
/* Writes the tile's TILE x TILE pixels to an address. */
void store_tile(const renderer *r, VkCommandBuffer commands, uint64_t address);

#endif
