// The peer of the push_pull bench: ps-lite with one worker and one server, which adds what is pushed and
// gives the sum back. Starts all three of its roles, and prints the mean of the iterations in microseconds.
//   pslite_push_pull BYTES ITERATIONS

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unordered_map>
#include <vector>

#include "ps/ps.h"

namespace {

struct Sum {
  std::unordered_map<ps::Key, std::vector<float>> store;

  void operator()(const ps::KVMeta& request, const ps::KVPairs<float>& pairs, ps::KVServer<float>* server) {
    std::vector<float>& sum = store[pairs.keys[0]];
    ps::KVPairs<float> answer;
    if (request.push) {
      sum.resize(pairs.vals.size());
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += pairs.vals[i];
    }
    if (request.pull) {
      answer.keys = pairs.keys;
      answer.vals.CopyFrom(sum.data(), sum.size());
      answer.lens.push_back(static_cast<int>(sum.size()));
    }
    server->Response(request, answer);
  }
};

void work(size_t floats, int iterations) {
  ps::KVWorker<float> worker(0, 0);
  const std::vector<ps::Key> keys{0};
  const std::vector<float> gradients(floats, 1.0f);
  std::vector<float> weights(floats);
  std::vector<int> push_lengths{static_cast<int>(floats)}, lengths{static_cast<int>(floats)};
  const auto once = [&] { worker.Wait(worker.PushPull(keys, gradients, &weights, &lengths)); };
  worker.Wait(worker.Push(keys, gradients, push_lengths));
  for (int i = 0; i < (iterations + 9) / 10; ++i) once();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < iterations; ++i) once();
  const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
  std::printf("%.3f\n", elapsed.count() / iterations);
}

// One that nobody listens at, or has listened at lately.
int free_port() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(fd);
  return bound ? ntohs(address.sin_port) : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  setenv("DMLC_NUM_WORKER", "1", 1);
  setenv("DMLC_NUM_SERVER", "1", 1);
  setenv("DMLC_PS_ROOT_URI", "127.0.0.1", 1);
  setenv("DMLC_PS_ROOT_PORT", std::to_string(free_port()).c_str(), 1);
  setenv("DMLC_NODE_HOST", "127.0.0.1", 1);
  for (const char* role : {"scheduler", "server", "worker"}) {
    if (fork() != 0) continue;
    alarm(120);
    setenv("DMLC_ROLE", role, 1);
    ps::Start(0);
    if (ps::IsServer()) {
      auto* server = new ps::KVServer<float>(0);
      server->set_request_handle(Sum());
      ps::RegisterExitCallback([server] { delete server; });
    }
    if (ps::IsWorker()) work(static_cast<size_t>(std::atoll(argv[1])) / sizeof(float), std::atoi(argv[2]));
    ps::Finalize(0, true);
    std::fflush(stdout);
    _exit(0);
  }
  int failed = 0, status = 0;
  while (wait(&status) > 0) failed |= status;
  return failed != 0;
}
