#include "cli/interrupts.h"

#include <sys/signalfd.h>

namespace muster::cli {

Interrupts::Interrupts() {
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &mask, &previous_mask_);
  fd_.Reset(::signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC));
}

Interrupts::~Interrupts() {
  while (Take()) {  // one that came last must not end the process now
  }
  ::pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr);
}

bool Interrupts::Take() {
  signalfd_siginfo info{};
  return ::read(fd_.get(), &info, sizeof info) == sizeof info;
}

}  // namespace muster::cli
