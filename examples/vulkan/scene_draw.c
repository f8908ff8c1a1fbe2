/* SPDX-License-Identifier: Apache-2.0
 *
 * scene_draw.c - images, pipelines and passes. Both images stay in the layout GENERAL, in which they can be drawn on and read by a
 * shader; the barriers of a launch stand between its passes and those of others.
 */
#include "scene_draw.h"

static const uint32_t vertex_shader[] =
#include <scene.vert.inc>
    ;
static const uint32_t fragment_shader[] =
#include <scene.frag.inc>
    ;
static const uint32_t store_shader[] =
#include <scene_store.comp.inc>
    ;

static const VkFormat colour_format = VK_FORMAT_R8G8B8A8_UNORM, depth_format = VK_FORMAT_D32_SFLOAT;
static const VkShaderStageFlags both_stages =
    VK_SHADER_STAGE_VERTEX_BIT | VK_SHADER_STAGE_FRAGMENT_BIT;

static attachment make_attachment(VkDevice device, VkFormat format, VkImageUsageFlags usage,
                                  VkImageAspectFlags aspect) {
  attachment made;
  const VkImageCreateInfo image = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
                                   .imageType = VK_IMAGE_TYPE_2D,
                                   .format = format,
                                   .extent = {TILE, TILE, 1},
                                   .mipLevels = 1,
                                   .arrayLayers = 1,
                                   .samples = VK_SAMPLE_COUNT_1_BIT,
                                   .tiling = VK_IMAGE_TILING_OPTIMAL,
                                   .usage = usage};
  MUST_VK(vkCreateImage(device, &image, NULL, &made.image));
  VkMemoryRequirements needs;
  vkGetImageMemoryRequirements(device, made.image, &needs);
  uint32_t type = 0; /* the first that will do: two small images need no better one */
  while ((needs.memoryTypeBits >> type & 1) == 0) type++;
  const VkMemoryAllocateInfo memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                       .allocationSize = needs.size,
                                       .memoryTypeIndex = type};
  MUST_VK(vkAllocateMemory(device, &memory, NULL, &made.memory));
  MUST_VK(vkBindImageMemory(device, made.image, made.memory, 0));
  const VkImageViewCreateInfo view = {.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
                                      .image = made.image,
                                      .viewType = VK_IMAGE_VIEW_TYPE_2D,
                                      .format = format,
                                      .subresourceRange = {aspect, 0, 1, 0, 1}};
  MUST_VK(vkCreateImageView(device, &view, NULL, &made.view));
  return made;
}

static void destroy_attachment(VkDevice device, attachment *a) {
  vkDestroyImageView(device, a->view, NULL);
  vkDestroyImage(device, a->image, NULL);
  vkFreeMemory(device, a->memory, NULL);
}

static void make_general(launcher *l, VkImage image, VkImageAspectFlags aspect) {
  const VkCommandBuffer commands = launch_begin(l);
  const VkImageMemoryBarrier barrier = {
      .sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER,
      .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT,
      .oldLayout = VK_IMAGE_LAYOUT_UNDEFINED,
      .newLayout = VK_IMAGE_LAYOUT_GENERAL,
      .srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
      .dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
      .image = image,
      .subresourceRange = {aspect, 0, 1, 0, 1}};
  vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT,
                       VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 0, NULL, 0, NULL, 1, &barrier);
  launch_end(l);
}

static void make_pass(renderer *r) {
  VkAttachmentDescription attachments[2] = {{.format = colour_format}, {.format = depth_format}};
  for (int i = 0; i < 2; i++) {
    attachments[i].samples = VK_SAMPLE_COUNT_1_BIT;
    attachments[i].loadOp = VK_ATTACHMENT_LOAD_OP_LOAD;
    attachments[i].storeOp = VK_ATTACHMENT_STORE_OP_STORE;
    attachments[i].stencilLoadOp = VK_ATTACHMENT_LOAD_OP_DONT_CARE;
    attachments[i].stencilStoreOp = VK_ATTACHMENT_STORE_OP_DONT_CARE;
    attachments[i].initialLayout = attachments[i].finalLayout = VK_IMAGE_LAYOUT_GENERAL;
  }
  const VkAttachmentReference colour = {0, VK_IMAGE_LAYOUT_GENERAL},
                              depth = {1, VK_IMAGE_LAYOUT_GENERAL};
  const VkSubpassDescription subpass = {.pipelineBindPoint = VK_PIPELINE_BIND_POINT_GRAPHICS,
                                        .colorAttachmentCount = 1,
                                        .pColorAttachments = &colour,
                                        .pDepthStencilAttachment = &depth};
  const VkRenderPassCreateInfo pass = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO,
                                       .attachmentCount = 2,
                                       .pAttachments = attachments,
                                       .subpassCount = 1,
                                       .pSubpasses = &subpass};
  MUST_VK(vkCreateRenderPass(r->device, &pass, NULL, &r->pass));
  const VkImageView views[2] = {r->colour.view, r->depth.view};
  const VkFramebufferCreateInfo frame = {.sType = VK_STRUCTURE_TYPE_FRAMEBUFFER_CREATE_INFO,
                                         .renderPass = r->pass,
                                         .attachmentCount = 2,
                                         .pAttachments = views,
                                         .width = TILE,
                                         .height = TILE,
                                         .layers = 1};
  MUST_VK(vkCreateFramebuffer(r->device, &frame, NULL, &r->frame));
}

/* Two shaders and what is fixed between them: no vertex input, no culling, depth tested and written. */
static void make_draw(renderer *r) {
  const VkPushConstantRange range = {both_stages, 0, sizeof(draw_constants)};
  const VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                             .pushConstantRangeCount = 1,
                                             .pPushConstantRanges = &range};
  MUST_VK(vkCreatePipelineLayout(r->device, &layout, NULL, &r->draw.layout));
  const VkShaderModule modules[2] = {
      shader_module(r->device, vertex_shader, sizeof vertex_shader),
      shader_module(r->device, fragment_shader, sizeof fragment_shader)};
  const VkShaderStageFlagBits kinds[2] = {VK_SHADER_STAGE_VERTEX_BIT, VK_SHADER_STAGE_FRAGMENT_BIT};
  VkPipelineShaderStageCreateInfo stages[2] = {{0}, {0}};
  for (int i = 0; i < 2; i++) {
    stages[i].sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    stages[i].stage = kinds[i];
    stages[i].module = modules[i];
    stages[i].pName = "main";
  }
  const VkPipelineVertexInputStateCreateInfo input = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO};
  const VkPipelineInputAssemblyStateCreateInfo assembly = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO,
      .topology = VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST};
  const VkPipelineViewportStateCreateInfo viewport = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO,
      .viewportCount = 1,
      .scissorCount = 1};
  const VkPipelineRasterizationStateCreateInfo raster = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO,
      .polygonMode = VK_POLYGON_MODE_FILL,
      .cullMode = VK_CULL_MODE_NONE,
      .lineWidth = 1};
  const VkPipelineMultisampleStateCreateInfo samples = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_MULTISAMPLE_STATE_CREATE_INFO,
      .rasterizationSamples = VK_SAMPLE_COUNT_1_BIT};
  const VkPipelineDepthStencilStateCreateInfo depth = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_DEPTH_STENCIL_STATE_CREATE_INFO,
      .depthTestEnable = VK_TRUE,
      .depthWriteEnable = VK_TRUE,
      .depthCompareOp = VK_COMPARE_OP_LESS};
  const VkPipelineColorBlendAttachmentState opaque = {.colorWriteMask = 0xf};
  const VkPipelineColorBlendStateCreateInfo blend = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_COLOR_BLEND_STATE_CREATE_INFO,
      .attachmentCount = 1,
      .pAttachments = &opaque};
  const VkDynamicState moving[2] = {VK_DYNAMIC_STATE_VIEWPORT, VK_DYNAMIC_STATE_SCISSOR};
  const VkPipelineDynamicStateCreateInfo dynamic = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_DYNAMIC_STATE_CREATE_INFO,
      .dynamicStateCount = 2,
      .pDynamicStates = moving};
  const VkGraphicsPipelineCreateInfo pipeline = {
      .sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO,
      .stageCount = 2,
      .pStages = stages,
      .pVertexInputState = &input,
      .pInputAssemblyState = &assembly,
      .pViewportState = &viewport,
      .pRasterizationState = &raster,
      .pMultisampleState = &samples,
      .pDepthStencilState = &depth,
      .pColorBlendState = &blend,
      .pDynamicState = &dynamic,
      .layout = r->draw.layout,
      .renderPass = r->pass};
  MUST_VK(
      vkCreateGraphicsPipelines(r->device, VK_NULL_HANDLE, 1, &pipeline, NULL, &r->draw.pipeline));
  for (int i = 0; i < 2; i++) vkDestroyShaderModule(r->device, modules[i], NULL);
}

/* The tile as the image that the compute shader reads. */
static void make_store(renderer *r) {
  const VkDescriptorSetLayoutBinding binding = {.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_IMAGE,
                                                .descriptorCount = 1,
                                                .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
  const VkDescriptorSetLayoutCreateInfo sets = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
      .bindingCount = 1,
      .pBindings = &binding};
  MUST_VK(vkCreateDescriptorSetLayout(r->device, &sets, NULL, &r->sets));
  const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_IMAGE, 1};
  const VkDescriptorPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                           .maxSets = 1,
                                           .poolSizeCount = 1,
                                           .pPoolSizes = &size};
  MUST_VK(vkCreateDescriptorPool(r->device, &pool, NULL, &r->descriptors));
  const VkDescriptorSetAllocateInfo one = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                           .descriptorPool = r->descriptors,
                                           .descriptorSetCount = 1,
                                           .pSetLayouts = &r->sets};
  MUST_VK(vkAllocateDescriptorSets(r->device, &one, &r->tile));
  const VkDescriptorImageInfo image = {.imageView = r->colour.view,
                                       .imageLayout = VK_IMAGE_LAYOUT_GENERAL};
  const VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                      .dstSet = r->tile,
                                      .descriptorCount = 1,
                                      .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_IMAGE,
                                      .pImageInfo = &image};
  vkUpdateDescriptorSets(r->device, 1, &write, 0, NULL);
  r->store =
      compute_program(r->device, store_shader, sizeof store_shader, sizeof(uint64_t), r->sets);
}

renderer renderer_start(launcher *l) {
  renderer r = {.device = l->device};
  r.colour = make_attachment(r.device, colour_format,
                             VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_STORAGE_BIT,
                             VK_IMAGE_ASPECT_COLOR_BIT);
  r.depth = make_attachment(r.device, depth_format, VK_IMAGE_USAGE_DEPTH_STENCIL_ATTACHMENT_BIT,
                            VK_IMAGE_ASPECT_DEPTH_BIT);
  make_general(l, r.colour.image, VK_IMAGE_ASPECT_COLOR_BIT);
  make_general(l, r.depth.image, VK_IMAGE_ASPECT_DEPTH_BIT);
  make_pass(&r);
  make_draw(&r);
  make_store(&r);
  return r;
}

void renderer_finish(renderer *r) {
  program_destroy(r->device, &r->store);
  program_destroy(r->device, &r->draw);
  vkDestroyDescriptorPool(r->device, r->descriptors, NULL);
  vkDestroyDescriptorSetLayout(r->device, r->sets, NULL);
  vkDestroyFramebuffer(r->device, r->frame, NULL);
  vkDestroyRenderPass(r->device, r->pass, NULL);
  destroy_attachment(r->device, &r->colour);
  destroy_attachment(r->device, &r->depth);
}

void pass_begin(const renderer *r, VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t width,
                uint32_t height, int clear) {
  const VkRect2D whole = {{0, 0}, {TILE, TILE}};
  const VkRenderPassBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO,
                                       .renderPass = r->pass,
                                       .framebuffer = r->frame,
                                       .renderArea = whole};
  vkCmdBeginRenderPass(commands, &begin, VK_SUBPASS_CONTENTS_INLINE);
  if (clear) {
    const VkClearAttachment clears[2] = {
        {.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT,
         .clearValue.color.float32 = {0.70F, 0.80F, 0.92F, 1}},
        {.aspectMask = VK_IMAGE_ASPECT_DEPTH_BIT, .clearValue.depthStencil.depth = 1}};
    const VkClearRect area = {whole, 0, 1};
    vkCmdClearAttachments(commands, 2, clears, 1, &area);
  }
  /* The picture's viewport, moved so that the tile is where the images are. */
  const VkViewport viewport = {-(float)x, -(float)y, (float)width, (float)height, 0, 1};
  vkCmdSetViewport(commands, 0, 1, &viewport);
  vkCmdSetScissor(commands, 0, 1, &whole);
  vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_GRAPHICS, r->draw.pipeline);
}

void pass_draw(const renderer *r, VkCommandBuffer commands, const draw_constants *what) {
  vkCmdPushConstants(commands, r->draw.layout, both_stages, 0, sizeof *what, what);
  vkCmdDraw(commands, 6 * (what->columns - 1) * (what->rows - 1), 1, 0, 0);
}

void pass_end(VkCommandBuffer commands) { vkCmdEndRenderPass(commands); }

void store_tile(const renderer *r, VkCommandBuffer commands, uint64_t address) {
  vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, r->store.pipeline);
  vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, r->store.layout, 0, 1, &r->tile,
                          0, NULL);
  vkCmdPushConstants(commands, r->store.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof address,
                     &address);
  vkCmdDispatch(commands, (TILE + 7) / 8, (TILE + 7) / 8, 1);
}
