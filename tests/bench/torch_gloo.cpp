// The peer of the allreduce bench: the same sum by Gloo, as PyTorch brings it, over TCP on loopback. Prints
// the mean of the iterations in microseconds.
//   torch_gloo MEMBERS BYTES ITERATIONS

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

// PyTorch's header includes Gloo's, which its package does not bring: the build puts empty files in their
// place, and this is what the header needs of them. Nothing here is made or derived from but inside the
// library.
namespace gloo {
struct Context {
  void setTimeout(std::chrono::milliseconds);
};
namespace rendezvous {
class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string&, const std::vector<char>&) = 0;
  virtual std::vector<char> get(const std::string&) = 0;
  virtual void wait(const std::vector<std::string>&) = 0;
  virtual void wait(const std::vector<std::string>&, const std::chrono::milliseconds&) = 0;
};
}  // namespace rendezvous
namespace transport {
class Device;
struct UnboundBuffer {};
}  // namespace transport
}  // namespace gloo

#define USE_C10D_GLOO
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/torch.h>

namespace {

void run(const std::string& meeting, int rank, int members, int64_t floats, int iterations) {
  at::set_num_threads(1);
  auto options = c10d::ProcessGroupGloo::Options::create_default(std::chrono::milliseconds(60000));
  options->devices = {c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")};
  const auto store = c10::make_intrusive<c10d::FileStore>(meeting, members);
  c10d::ProcessGroupGloo group(store, rank, members, options);
  std::vector<at::Tensor> tensors{torch::ones({floats})};
  for (int i = 0; i < (iterations + 9) / 10; ++i) group.allreduce(tensors)->wait();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < iterations; ++i) group.allreduce(tensors)->wait();
  const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
  if (rank == 0) std::printf("%.3f\n", elapsed.count() / iterations);
  group.barrier()->wait();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int members = std::atoi(argv[1]), iterations = std::atoi(argv[3]);
  const int64_t floats = std::atoll(argv[2]) / static_cast<int64_t>(sizeof(float));
  const std::string meeting =
      std::filesystem::temp_directory_path() / ("torch-gloo-" + std::to_string(getpid()));
  for (int rank = 0; rank < members; ++rank) {
    if (fork() != 0) continue;
    alarm(120);
    run(meeting, rank, members, floats, iterations);
    std::fflush(stdout);
    _exit(0);
  }
  int failed = 0, status = 0;
  while (wait(&status) > 0) failed |= status;
  std::filesystem::remove(meeting);
  return failed != 0;
}
