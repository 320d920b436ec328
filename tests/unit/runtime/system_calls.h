// A child process in which system calls fail, or handle only some of the bytes, as they may on disks that
// tests do not have.
#pragma once

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <type_traits>
#include <ucontext.h>
#include <unistd.h>

#include <doctest/doctest.h>

namespace mlk::test {

// Runs `body` in a child process, so that its limits and mounts do not change this process. Returns the exit
// code of the child.
template <class Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(body());
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

template <std::size_t Size>
bool filter_calls(sock_filter (&filter)[Size]) {
  const sock_fprog program{Size, filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// From now on renameat2() with flags fails, as on a file system without support for flags, such as NFS.
inline bool refuse_rename_flags() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[4])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  return filter_calls(filter);
}

inline constexpr std::size_t longest_piece = 5;

// Reads or writes only the first bytes of the request. Every third call fails as interrupted instead.
inline void answer_in_pieces(int, siginfo_t* info, void* context) {
  static int calls = 0;
  const int error_before = errno;
  auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  const auto file = machine.gregs[REG_RDI], bytes = machine.gregs[REG_RSI];
  auto& result = machine.gregs[REG_RAX];
#elif defined(__aarch64__)
  const auto file = machine.regs[0], bytes = machine.regs[1];
  auto& result = machine.regs[0];
#endif
  const bool interrupted = ++calls % 3 == 0;
  const long done = interrupted ? -1 : syscall(info->si_syscall, file, bytes, longest_piece);
  result = static_cast<std::remove_reference_t<decltype(result)>>(interrupted ? -EINTR
                                                                  : done < 0  ? -errno
                                                                              : done);
  errno = error_before;
}

// From now on `call` (read or write) handles at most the longest piece at once, as disks and signals may
// cause at any time.
inline bool come_in_pieces(long call) {
  struct sigaction action{};
  action.sa_sigaction = answer_in_pieces;
  action.sa_flags = SA_SIGINFO;
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, longest_piece, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  return sigaction(SIGSYS, &action, nullptr) == 0 && filter_calls(filter);
}

// The number of files and sockets that this process has open.
inline std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

}  // namespace mlk::test
