// A stack of its own: code that can pause in the middle and go on later, on one thread of the
// machine. Changing between two takes a fraction of a microsecond; handing over between threads of
// the machine takes ten.
#pragma once

#include <sys/mman.h>
#include <ucontext.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/check.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/common_interface_defs.h>
#define TOMBOLO_FIBRES_ARE_WATCHED 1  // AddressSanitizer wants to know on which stack it is
#endif
#endif

namespace tombolo {

class Fibre {
 public:
  Fibre() = default;
  Fibre(const Fibre&) = delete;
  ~Fibre() {
    if (stack_) give_back(stack_);
  }

  // Nothing runs before go_on().
  void begin(std::function<void()> body) {
    CHECK(!stack_, "a fibre that has begun");
    body_ = std::move(body);
    stack_ = take();
    CHECK(getcontext(&inside_) == 0, "no context");
    inside_.uc_stack.ss_sp = stack_;
    inside_.uc_stack.ss_size = kStack;
    inside_.uc_link = nullptr;
    const auto at = reinterpret_cast<uintptr_t>(this);
    makecontext(&inside_, reinterpret_cast<void (*)()>(run), 2, static_cast<uint32_t>(at >> 32),
                static_cast<uint32_t>(at));
  }

  // From outside: until it pauses, or its body ends; then its stack is free.
  void go_on() {
    CHECK(stack_, "a fibre that is not there goes on");
    leave(&fake_outside_, stack_, kStack);
    swapcontext(&outside_, &inside_);
    arrive(fake_outside_);
    if (ended_) give_back(std::exchange(stack_, nullptr));
  }

  // From inside: until somebody says go_on().
  void pause() {
    leave(&fake_inside_, outside_stack_, outside_size_);
    swapcontext(&inside_, &outside_);
    arrive(fake_inside_);
  }

 private:
  static constexpr size_t kStack = size_t{1} << 20;  // of which what is touched takes memory
  static constexpr size_t kGuard = 4096;

  static void run(uint32_t high, uint32_t low) {
    auto* self = reinterpret_cast<Fibre*>(static_cast<uintptr_t>(high) << 32 | low);
    self->arrive_first();
    self->body_();
    self->body_ = nullptr;
    self->ended_ = true;
    self->leave(nullptr, self->outside_stack_, self->outside_size_);
    setcontext(&self->outside_);
  }

  static std::vector<void*>& free_stacks() {
    static std::vector<void*> stacks;
    return stacks;
  }
  static void* take() {
    auto& stacks = free_stacks();
    if (!stacks.empty()) {
      void* stack = stacks.back();
      stacks.pop_back();
      return stack;
    }
    void* at = mmap(nullptr, kStack + kGuard, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    CHECK(at != MAP_FAILED && mprotect(at, kGuard, PROT_NONE) == 0, "no room for a stack");
    return static_cast<char*>(at) + kGuard;
  }
  static void give_back(void* stack) { free_stacks().push_back(stack); }

#ifdef TOMBOLO_FIBRES_ARE_WATCHED
  static void leave(void** fake, const void* to, size_t size) {
    __sanitizer_start_switch_fiber(fake, to, size);
  }
  static void arrive(void* fake) { __sanitizer_finish_switch_fiber(fake, nullptr, nullptr); }
  void arrive_first() { __sanitizer_finish_switch_fiber(nullptr, &outside_stack_, &outside_size_); }
#else
  static void leave(void**, const void*, size_t) {}
  static void arrive(void*) {}
  void arrive_first() {}
#endif

  std::function<void()> body_;
  void* stack_ = nullptr;
  bool ended_ = false;
  ucontext_t inside_{}, outside_{};
  void *fake_inside_ = nullptr, *fake_outside_ = nullptr;
  const void* outside_stack_ = nullptr;
  size_t outside_size_ = 0;
};

}  // namespace tombolo
