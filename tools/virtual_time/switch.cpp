// SPDX-License-Identifier: Apache-2.0
//
// Switching on x86-64 processors whose kernel lets programs set the thread pointer (FSGSBASE). Elsewhere there is none.
#include "tools/virtual_time/switch.hpp"

#include <cstdlib>

#if defined(__x86_64__)

#include <linux/futex.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

// void weir_virtual_switch(void **stack, void *other, uint64_t pointer): saves what a function must keep, and its stack's pointer to
// *stack; goes on where `other` was saved so, as the thread of that pointer.
asm(R"(
.text
.p2align 4
.type weir_virtual_switch,@function
weir_virtual_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  wrfsbase %rdx
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size weir_virtual_switch,.-weir_virtual_switch
)");
extern "C" void weir_virtual_switch(void **stack, void *other, uint64_t pointer) noexcept;

namespace weir::virtual_time {
namespace {

constexpr size_t waiting_room_bytes = 16384;
constexpr size_t saved_words = 6;
constexpr unsigned long may_set_pointer = 2;  // HWCAP2_FSGSBASE

thread_local Context *own = nullptr;

uint64_t thread_pointer() noexcept {
  uint64_t pointer = 0;
  asm volatile("rdfsbase %0" : "=r"(pointer));
  return pointer;
}

/// Not by the C library, which would write errno.
void futex(std::atomic<uint32_t> *word, long what, long value) noexcept {
  long number = SYS_futex;
  register long no_time asm("r10") = 0;
  asm volatile("syscall"
               : "+a"(number)
               : "D"(word), "S"(what), "d"(value), "r"(no_time)
               : "rcx", "r11", "memory");
}

void wait_until_set(std::atomic<uint32_t> &word) noexcept {
  while (word.load(std::memory_order_acquire) == 0) futex(&word, FUTEX_WAIT_PRIVATE, 0);
}

void set(std::atomic<uint32_t> &word) noexcept {
  word.store(1, std::memory_order_release);
  futex(&word, FUTEX_WAKE_PRIVATE, 1);
}

/// Where a kernel thread waits, in its waiting room.
[[noreturn]] void wait_there() noexcept {
  Context &context = *own;
  void *left = nullptr;
  set(context.parked);
  wait_until_set(context.released);
  weir_virtual_switch(&left, context.stack, context.pointer);
  std::abort();  // nothing switches back
}

/// A shadow stack would have to be switched as well. The instruction does nothing where there is none.
bool has_shadow_stack() noexcept {
  uint64_t shadow = 0;
  asm volatile("rdsspq %0" : "+r"(shadow));
  return shadow != 0;
}

}  // namespace

bool can_switch() noexcept {
  return (getauxval(AT_HWCAP2) & may_set_pointer) != 0 && !has_shadow_stack();
}

void carry(Context &context) noexcept {
  context.pointer = thread_pointer();
  context.parked.store(1, std::memory_order_relaxed);
}

void park(Context &context) {
  own = &context;
  context.pointer = thread_pointer();
  context.waiting_room = std::make_unique_for_overwrite<std::byte[]>(waiting_room_bytes);
  const auto end = reinterpret_cast<uintptr_t>(context.waiting_room.get()) + waiting_room_bytes;
  // As if wait_there() had been called from nowhere: the address that it returns to lies below a multiple of 16.
  auto *frame = reinterpret_cast<uintptr_t *>(end & ~uintptr_t{15}) - 2 - saved_words;
  for (size_t word = 0; word < saved_words; ++word) frame[word] = 0;
  frame[saved_words] = reinterpret_cast<uintptr_t>(&wait_there);
  frame[saved_words + 1] = 0;
  weir_virtual_switch(&context.stack, frame, context.pointer);
}

void go_over(Context &from, Context &to) noexcept {
  wait_until_set(to.parked);
  weir_virtual_switch(&from.stack, to.stack, to.pointer);
}

void release(Context &context) noexcept { set(context.released); }

}  // namespace weir::virtual_time

#else

namespace weir::virtual_time {

bool can_switch() noexcept { return false; }
void carry(Context &) noexcept {}
void park(Context &) { std::abort(); }
void go_over(Context &, Context &) noexcept { std::abort(); }
void release(Context &) noexcept { std::abort(); }

}  // namespace weir::virtual_time

#endif
