/* SPDX-License-Identifier: Apache-2.0
 *
 * scene_world.c - the landscape: noise in octaves, coloured by height and slope. Everything is a function of the place, so patches
 * fit together although each is made by itself.
 */
#include "scene_world.h"

#include <math.h>

static float random_at(int32_t x, int32_t z) {
  uint32_t h = (uint32_t)x * 0x8da6b343U ^ (uint32_t)z * 0xd8163841U;
  h = (h ^ h >> 15) * 0x2c1b3c6dU;
  h = (h ^ h >> 12) * 0x297a2d39U;
  return (float)((h ^ h >> 15) >> 8) / (1 << 24);
}

static float smooth_noise(float x, float z) {
  const float fx = floorf(x), fz = floorf(z);
  const int32_t ix = (int32_t)fx, iz = (int32_t)fz;
  float tx = x - fx, tz = z - fz;
  tx = tx * tx * (3 - 2 * tx), tz = tz * tz * (3 - 2 * tz);
  const float near = random_at(ix, iz) * (1 - tx) + random_at(ix + 1, iz) * tx;
  const float far = random_at(ix, iz + 1) * (1 - tx) + random_at(ix + 1, iz + 1) * tx;
  return near * (1 - tz) + far * tz;
}

static float octaves(float x, float z, int count) {
  float sum = 0, weight = 0.5F;
  for (int i = 0; i < count; i++) {
    sum += weight * smooth_noise(x, z);
    x = 2.03F * x + 17.1F, z = 2.01F * z + 5.3F, weight *= 0.5F;
  }
  return sum;
}

/* A valley along the middle, mountains on both sides and behind. */
static float height_at(float x, float z) {
  const float valley = fabsf(x - 6 - 1.2F * sinf(0.6F * z)) / 6;
  const float rise = 0.25F + 2.6F * valley * (0.4F + 0.07F * z);
  const float ridges = 1 - fabsf(2 * octaves(0.55F * x, 0.55F * z, 6) - 1);
  const float ground = 1.6F * rise * (ridges * ridges - 0.35F);
  return ground > 0 ? ground : 0; /* a lake */
}

static uint32_t pack(float red, float green, float blue) {
  const float channel[3] = {red, green, blue};
  uint32_t packed = 0xff000000U;
  for (int c = 0; c < 3; c++) {
    const float kept = channel[c] < 0 ? 0 : channel[c] > 1 ? 1 : channel[c];
    packed |= (uint32_t)(kept * 255 + 0.5F) << 8 * c;
  }
  return packed;
}

static void slope_at(float x, float z, float normal[3]) {
  const float step = 0.02F;
  normal[0] = height_at(x - step, z) - height_at(x + step, z);
  normal[1] = 2 * step;
  normal[2] = height_at(x, z - step) - height_at(x, z + step);
  const float length = sqrtf(normal[0] * normal[0] + normal[1] * normal[1] + normal[2] * normal[2]);
  for (int axis = 0; axis < 3; axis++) normal[axis] /= length;
}

static uint32_t ground_colour(float x, float z) {
  const float height = height_at(x, z), grain = octaves(9 * x, 9 * z, 4) - 0.47F;
  float normal[3];
  slope_at(x, z, normal);
  if (height <= 0) return pack(0.10F, 0.27F + 0.1F * grain, 0.40F + 0.15F * grain);
  if (height < 0.05F) return pack(0.72F + grain, 0.64F + grain, 0.44F + grain);
  if (height + 1.5F * grain > 1.75F && normal[1] > 0.45F) return pack(0.94F, 0.95F, 0.98F);
  if (normal[1] < 0.62F + 0.4F * grain)
    return pack(0.42F + grain, 0.37F + 0.9F * grain, 0.33F + 0.8F * grain);
  return pack(0.22F + 0.7F * grain, 0.38F + 0.6F * grain, 0.14F + 0.4F * grain);
}

static void make_patch(uint32_t patch, vertex *mesh, uint32_t *texture) {
  const float left = (float)(patch % PATCHES), front = (float)(patch / PATCHES);
  for (int i = 0; i < COLUMNS * COLUMNS; i++) {
    const float x = left + (float)(i % COLUMNS) / (COLUMNS - 1);
    const float z = front + (float)(i / COLUMNS) / (COLUMNS - 1);
    mesh[i].position[0] = x, mesh[i].position[1] = height_at(x, z), mesh[i].position[2] = z;
    slope_at(x, z, mesh[i].normal);
  }
  for (int i = 0; i < TEXTURE * TEXTURE; i++)
    texture[i] = ground_colour(left + (float)(i % TEXTURE) / (TEXTURE - 1),
                               front + (float)(i / TEXTURE) / (TEXTURE - 1));
}

static void make_balloon(uint32_t balloon, vertex *mesh, uint32_t *texture) {
  const float turn = 6.2831853F, radius = 0.3F + 0.05F * (float)(balloon % 3);
  const float x = 3.6F + 5.2F * random_at((int32_t)balloon, 71);
  const float z = 2.4F + 1.1F * (float)balloon;
  const float y = 1.35F + 0.9F * random_at((int32_t)balloon, 72);
  for (int i = 0; i < COLUMNS * COLUMNS; i++) {
    const float along = turn * (float)(i % COLUMNS) / (COLUMNS - 1);
    const float up = turn / 2 * (float)(i / COLUMNS) / (COLUMNS - 1);
    const float narrow = up > turn / 4 ? 1 - 0.25F * (up - turn / 4) : 1;
    const float normal[3] = {sinf(up) * cosf(along), cosf(up), sinf(up) * sinf(along)};
    const float centre[3] = {x, y, z}, stretch[3] = {narrow, 1.15F, narrow};
    for (int axis = 0; axis < 3; axis++) {
      mesh[i].position[axis] = centre[axis] + radius * stretch[axis] * normal[axis];
      mesh[i].normal[axis] = normal[axis];
    }
  }
  const float hue = (float)balloon * 1.7F;
  for (int i = 0; i < TEXTURE * TEXTURE; i++) {
    const int stripe = i % TEXTURE * 12 / TEXTURE, row = i / TEXTURE;
    if (row > TEXTURE * 7 / 8)
      texture[i] = pack(0.35F, 0.22F, 0.12F);
    else if (stripe % 2 == 0 || (row > 52 && row < 60))
      texture[i] = pack(0.97F, 0.93F, 0.82F);
    else
      texture[i] = pack(0.55F + 0.4F * sinf(hue), 0.35F + 0.3F * sinf(hue + 2.1F),
                        0.45F + 0.4F * sinf(hue + 4.2F));
  }
}

void make_object(uint32_t object, vertex mesh[COLUMNS * COLUMNS],
                 uint32_t texture[TEXTURE * TEXTURE], float least[3], float most[3]) {
  if (object < PATCHES * PATCHES)
    make_patch(object, mesh, texture);
  else
    make_balloon(object - PATCHES * PATCHES, mesh, texture);
  for (int axis = 0; axis < 3; axis++) {
    least[axis] = most[axis] = mesh[0].position[axis];
    for (int i = 1; i < COLUMNS * COLUMNS; i++) {
      least[axis] = fminf(least[axis], mesh[i].position[axis]);
      most[axis] = fmaxf(most[axis], mesh[i].position[axis]);
    }
  }
}

/* It stands before the landscape, looks along the valley and a little down: x to the right, y up, z away. */
void make_camera(float width_to_height, float camera[16]) {
  const float eye[3] = {6.0F, 2.0F, -0.9F}, down = 0.17F, focus = 1.35F, near = 0.1F, far = 40;
  const float s = sinf(down), c = cosf(down), depth = far / (far - near);
  /* Of a place seen from the eye: right = x, up = c y + s z, away = c z - s y. */
  const float rows[4][3] = {{focus / width_to_height, 0, 0},
                            {0, -focus * c, -focus * s}, /* Vulkan's y is down */
                            {0, -s * depth, c * depth},
                            {0, -s, c}};
  const float shift[4] = {0, 0, -near * depth, 0};
  for (int row = 0; row < 4; row++) {
    for (int column = 0; column < 3; column++) camera[4 * column + row] = rows[row][column];
    camera[12 + row] =
        shift[row] - rows[row][0] * eye[0] - rows[row][1] * eye[1] - rows[row][2] * eye[2];
  }
}
