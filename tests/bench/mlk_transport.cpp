// Our side of the transport bench, and what the machine itself can do. Starts a process for each part, on
// addresses of its own, and prints the mean of the iterations in microseconds.
//   bench_transport allreduce MEMBERS BYTES ITERATIONS tcp|host
//                             the sum of a vector over the members
//   bench_transport push_pull BYTES ITERATIONS tcp|host
//                             a worker pushes, a server adds and sends the sum back
//   bench_transport round_trip BYTES ITERATIONS
//                             bare TCP on loopback, there and back
//   bench_transport one_way BYTES ITERATIONS
//                             the same, one way, in writes of 256 KiB
//   bench_transport memcpy BYTES ITERATIONS
//                             one thread

#include <algorithm>
#include <arpa/inet.h>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <netinet/tcp.h>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/ops.h"
#include "runtime/base/freed_memory.h"
#include "runtime/collectives/ring.h"
#include "runtime/ps/machines/protocol.h"
#include "runtime/transport/transport.h"

namespace {

using namespace mlk::rt;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds bound{60};

// Runs body(0), body(1), ... in a process each; 0 if all of them went well.
template <typename Body>
int in_processes(int count, Body body) {
  for (int index = 0; index < count; ++index) {
    if (fork() == 0) {
      alarm(120);
      body(index);
      std::fflush(stdout);
      _exit(0);
    }
  }
  int failed = 0, status = 0;
  while (wait(&status) > 0) failed |= status;
  return failed != 0;
}

// Mean microseconds of iterations of `once`, after some to warm up.
template <typename Once>
double mean_of(int iterations, Once once) {
  for (int i = 0; i < (iterations + 9) / 10; ++i) once();
  const auto start = Clock::now();
  for (int i = 0; i < iterations; ++i) once();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count() / iterations;
}

void give_up(const char* what) {
  std::fprintf(stderr, "bench_transport: %s\n", what);
  _exit(1);
}

std::string address_of(int index) {
  static const int run = getpid() % 60000;
  return "127." + std::to_string(16 + run / 250) + "." + std::to_string(run % 250) + "." +
         std::to_string(index + 1) + ":7070";
}

// early: messages of peers that had met all the others before.
std::unique_ptr<Transport> connect_all(PeerId self, int index, bool tcp, const std::vector<PeerId>& lower,
                                       std::size_t peers, std::vector<Event>& early) {
  TransportOptions options;
  options.unix_sockets = !tcp;
  auto transport = std::make_unique<Transport>(
      Identity{"bench", self, static_cast<std::uint64_t>(index + 1), address_of(index)},
      parse_key(std::string(64, 'a')), options, [](std::string_view) {});
  for (std::size_t i = 0; i < lower.size(); ++i) transport->dial(lower[i], address_of(static_cast<int>(i)));
  for (std::size_t up = 0; up < peers;) {
    auto event = transport->receive(Clock::now() + bound);
    if (!event) give_up("the processes did not meet");
    up += event->kind == Event::Kind::up;
    if (event->kind == Event::Kind::message) early.push_back(std::move(*event));
  }
  return transport;
}

void allreduce(int rank, int members, std::size_t floats, int iterations, bool tcp) {
  std::vector<PeerId> lower;
  Ring::Group group{1, 0, {}, static_cast<std::size_t>(rank)};
  for (int i = 0; i < members; ++i) {
    const PeerId peer{Role::worker, static_cast<std::uint32_t>(i)};
    if (i < rank) lower.push_back(peer);
    group.ranks.push_back(peer.rank);
  }
  std::vector<Event> early;
  const auto transport = connect_all({Role::worker, static_cast<std::uint32_t>(rank)}, rank, tcp, lower,
                                     group.ranks.size() - 1, early);
  Ring ring(*transport, floats);
  for (Event& event : early) ring.store_early(std::move(event));
  std::vector<float> data(floats, 1.0f);
  const double mean = mean_of(iterations, [&] {
    ++group.step;
    const auto pump = [&](std::optional<Event>& event, Milliseconds time) {
      event = transport->receive(Clock::now() + time);
      // A member that has all it needs may leave before the others; for those that die there is the alarm.
      if (event && event->kind != Event::Kind::message) event.reset();
      return true;
    };
    const Bucket all{0, floats};
    const bool summed = ring.sum(data, {&all, 1}, [] { return std::size_t{1}; }, group, pump);
    if (!summed) give_up("a sum was given up");
  });
  if (rank == 0) std::printf("%.3f\n", mean);
  transport->send_goodbye(0);
}

void serve(std::size_t floats, bool tcp) {
  std::vector<Event> none;  // there is nobody else
  const auto transport = connect_all({Role::server, 0}, 0, tcp, {}, 1, none);
  const auto ops = mlk::kernels::make_cpu_ops(1);
  std::vector<float> shard(floats);
  std::map<std::uint32_t, Header> owed;
  while (const auto event = transport->receive(Clock::now() + bound)) {
    if (event->kind == Event::Kind::goodbye) return;
    if (event->kind == Event::Kind::message) {
      const std::size_t size = event->payload.size() / sizeof(float);
      const auto sum = std::span(shard).subspan(event->header.key * chunk_floats, size);
      ops->add_scaled(sum, 1, {reinterpret_cast<const float*>(event->payload.data()), size}, sum);
      owed[event->header.key] = event->header;
    }
    while (!owed.empty() && transport->has_room({Role::worker, 0})) {
      Header header = owed.begin()->second;
      owed.erase(owed.begin());
      header.type = MessageType::weights;
      const std::size_t offset = header.key * chunk_floats;
      transport->send(
          {Role::worker, 0}, header,
          std::as_bytes(std::span(shard).subspan(offset, std::min(chunk_floats, floats - offset))));
    }
  }
}

void push_pull(std::size_t floats, int iterations, bool tcp) {
  const PeerId server{Role::server, 0};
  std::vector<Event> none;
  const auto transport = connect_all({Role::worker, 0}, 1, tcp, {server}, 1, none);
  std::vector<float> gradients(floats, 1.0f), weights(floats);
  const auto chunks = static_cast<std::uint32_t>((floats + chunk_floats - 1) / chunk_floats);
  std::uint64_t clock = 0;
  const double mean = mean_of(iterations, [&] {
    ++clock;
    const auto part = [&](std::vector<float>& all, std::uint32_t key) {
      return std::span(all).subspan(key * chunk_floats, std::min(chunk_floats, floats - key * chunk_floats));
    };
    for (std::uint32_t key = 0; key < chunks; ++key) {
      transport->posted_receives().post({server, MessageType::weights, 0, clock, key},
                                        std::as_writable_bytes(part(weights, key)));
    }
    for (std::uint32_t key = 0; key < chunks; ++key) {
      Header header;
      header.type = MessageType::push;
      header.data_type = DataType::float32;
      header.clock = clock;
      header.key = key;
      if (!transport->send(server, header, std::as_bytes(part(gradients, key))))
        give_up("the server is gone");
    }
    for (std::uint32_t left = chunks; left > 0;) {
      const auto event = transport->receive(Clock::now() + bound);
      if (!event || event->kind == Event::Kind::down) give_up("the server does not answer");
      left -= event->kind == Event::Kind::message && event->in_posted_buffer;
    }
  });
  std::printf("%.3f\n", mean);
  transport->send_goodbye(0);
}

void transfer(int fd, std::byte* bytes, std::size_t size, bool out) {
  for (std::size_t done = 0; done < size;) {
    const std::size_t piece = std::min<std::size_t>(size - done, 256 * 1024);
    const ssize_t moved =
        out ? ::send(fd, bytes + done, piece, MSG_NOSIGNAL) : ::recv(fd, bytes + done, piece, 0);
    if (moved <= 0) give_up("the bare connection broke");
    done += static_cast<std::size_t>(moved);
  }
}

// Bare TCP on loopback: what the machine's own sockets do.
int bare(std::size_t bytes, int iterations, bool back) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(listener, 1) != 0)
    return 1;
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  return in_processes(2, [&](int index) {
    const int fd = index == 0 ? accept(listener, nullptr, nullptr) : socket(AF_INET, SOCK_STREAM, 0);
    if (index == 1 && connect(fd, reinterpret_cast<sockaddr*>(&address), length) != 0)
      give_up("no bare connection");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    std::vector<std::byte> buffer(bytes), answer(back ? bytes : 1);
    const double mean = mean_of(iterations, [&] {
      if (index == 1) transfer(fd, buffer.data(), buffer.size(), true);
      transfer(fd, index == 1 ? answer.data() : buffer.data(), index == 1 ? answer.size() : buffer.size(),
               false);
      if (index == 0) transfer(fd, answer.data(), answer.size(), true);
    });
    if (index == 1) std::printf("%.3f\n", mean);
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const auto number = [&](int index) { return index < argc ? std::atoll(argv[index]) : 0; };
  keep_freed_memory();
  if (what == "allreduce" && argc == 6) {
    const auto members = static_cast<int>(number(2));
    address_of(0);
    return in_processes(members, [&](int rank) {
      allreduce(rank, members, static_cast<std::size_t>(number(3)) / sizeof(float),
                static_cast<int>(number(4)), std::string(argv[5]) == "tcp");
    });
  }
  const auto bytes = static_cast<std::size_t>(number(2));
  const auto iterations = static_cast<int>(number(3));
  if (what == "push_pull" && argc == 5) {
    const bool tcp = std::string(argv[4]) == "tcp";
    address_of(0);
    return in_processes(2, [&](int index) {
      if (index == 0) return serve(bytes / sizeof(float), tcp);
      push_pull(bytes / sizeof(float), iterations, tcp);
    });
  }
  if ((what == "round_trip" || what == "one_way") && argc == 4)
    return bare(bytes, iterations, what == "round_trip");
  if (what == "memcpy" && argc == 4) {
    std::vector<std::byte> from(bytes, std::byte{1}), to(bytes);
    std::printf("%.3f\n", mean_of(iterations, [&] {
                  std::memcpy(to.data(), from.data(), bytes);
                  asm volatile("" : : "r"(to.data()) : "memory");
                }));
    return 0;
  }
  return 2;
}
