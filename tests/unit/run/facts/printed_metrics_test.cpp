// Lines that known programs print, and what mlk reads in them.
#include "cli/run/facts/printed_metrics.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "cli/util/text.h"

TEST_SUITE_BEGIN("run/facts/printed_metrics");

namespace mlk {
namespace {

// "step=3 epoch=1 | acc=0.5 loss=2"; empty if nothing is read.
std::string read(std::string_view line) {
  const std::optional<PrintedMetrics> found = read_printed_metrics(line);
  if (!found) return "";
  std::vector<std::string> place, values;
  if (found->step) place.push_back(fmt::format("step={}", *found->step));
  if (found->epoch) place.push_back(fmt::format("epoch={}", *found->epoch));
  for (const auto& [name, value] : found->values) values.push_back(fmt::format("{}={}", name, value));
  return join(place, " ") + (values.empty() ? "" : " | " + join(values, " "));
}

struct Case {
  const char* line;
  const char* found;
};

TEST_CASE("mlk reads the lines of known training programs") {
  constexpr Case cases[] = {
      // PyTorch's examples
      {"Train Epoch: 1 [640/60000 (1%)]\tLoss: 1.234", "step=640 epoch=1 | loss=1.234"},
      {"Epoch: [0][ 10/100]\tTime  0.1 ( 0.2)\tLoss 6.9e+00 (7.0e+00)\tAcc@1   0.00 (  0.39)",
       "step=10 epoch=0 | acc@1=0 loss=6.9 time=0.1"},
      {"Epoch: [0]  [ 10/100]  eta: 0:01:00  lr: 0.01  loss: 0.5 (0.6)  acc1: 90.0 (89.0)  time: 0.1",
       "step=10 epoch=0 | acc1=90 loss=0.5 lr=0.01 time=0.1"},
      {"Train: 0 [  50/1251 (  4%)]  Loss: 6.9 (6.95)  Time: 0.5s,  LR: 1.0e-5",
       "step=50 | loss=6.9 lr=1e-05 time=0.5 train=0"},
      // nanoGPT
      {"iter 100: loss 1.5, time 52.3ms, mfu 2.1%", "step=100 | loss=1.5 mfu=2.1 time=52.3"},
      {"step 250: train loss 2.1, val loss 2.2", "step=250 | train_loss=2.1 val_loss=2.2"},
      // llm.c, Megatron, DeepSpeed
      {"step   10/100 | loss 7.0 | norm 1.2 | lr 6.0e-04 | 12.3 ms | 30% bf16 MFU",
       "step=10 | loss=7 lr=0.0006 norm=1.2"},
      {" iteration      100/    1000 | consumed samples:        25600 | elapsed time per iteration (ms): "
       "52.1 | "
       "learning rate: 1.0E-4 | lm loss: 2.3E+00 | grad norm: 1.1 |",
       "step=100 | consumed_samples=25600 elapsed_time_per_iteration=52.1 grad_norm=1.1 learning_rate=0.0001 "
       "lm_loss=2.3"},
      {"[2024-01-01 10:00:00,123] [INFO] [logging.py:69:log_dist] [Rank 0] step=100, skipped=0, lr=1e-4",
       "step=100 | lr=0.0001 rank=0 skipped=0"},
      // Hugging Face
      {"{'loss': 0.5, 'grad_norm': 1.5, 'learning_rate': 5e-05, 'epoch': 1.0}",
       "epoch=1 | grad_norm=1.5 learning_rate=5e-05 loss=0.5"},
      {"{'eval_loss': nan, 'eval_ok': True, 'epoch': 2.0}", "epoch=2 | eval_loss=nan"},
      {"{'loss': '0.5', 'epoch': '0.1'}", "epoch=0.1 | loss=0.5"},
      // Keras
      {"Epoch 3/10 - loss: 0.52 - acc: 0.81", "epoch=3 | acc=0.81 loss=0.52"},
      {"313/313 [==============================] - 2s 5ms/step - loss: 0.25 - accuracy: 0.92",
       "step=313 | accuracy=0.92 loss=0.25"},
      // bars of Lightning and tqdm
      {"Epoch 0: 100%|##########| 10/10 [00:00<00:00, 30.1it/s, loss=0.3, v_num=1]",
       "step=10 epoch=0 | loss=0.3 v_num=1"},
      {" 42%|####2     | 42/100 [00:10<00:14,  4.1it/s, loss=0.41]", "step=42 | loss=0.41"},
      // boosting
      {"[0]\ttrain-logloss:0.5\teval-logloss:0.6", "step=0 | eval-logloss=0.6 train-logloss=0.5"},
      {"[10]\tvalid_0's l2: 0.5", "step=10 | valid_0's_l2=0.5"},
      // scikit-learn
      {"Iteration 1, loss = 0.5", "step=1 | loss=0.5"},
      // Detectron2, MMDetection
      {"[01/01 10:00:00 d2.utils.events]:  eta: 0:01:00  iter: 19  total_loss: 1.5  loss_cls: 0.5  lr: 0.001 "
       " max_mem: 1000M",
       "step=19 | loss_cls=0.5 lr=0.001 max_mem=1000 total_loss=1.5"},
      // loops of one's own
      {"[  100/ 1000] loss 0.3 | lr 1e-4 | 52 ms", "step=100 | loss=0.3 lr=0.0001"},
      {"epoch=1 loss=0.5 acc=0.8", "epoch=1 | acc=0.8 loss=0.5"},
      {"Epoch 1, train loss: 0.5, val loss: 0.4", "epoch=1 | train_loss=0.5 val_loss=0.4"},
      {"epoch 5 loss 0.3 acc 0.9", "epoch=5 | acc=0.9 loss=0.3"},
      {"INFO:root:step: 5 loss: -0.25", "step=5 | loss=-0.25"},
      {"2026-11-23 10:00:00 INFO trainer.py:12 step=7 loss=2.5e-1", "step=7 | loss=0.25"},
      {"\x1b[32mstep\x1b[0m 3 | \x1b[1mloss\x1b[0m 0.5", "step=3 | loss=0.5"},
      {"{\"step\": 10, \"train\": {\"loss\": 0.5}, \"note\": \"x\"}", "step=10 | train.loss=0.5"},
      {"INFO {\"global_step\": 10, \"loss\": NaN}", "step=10 | loss=nan"},
      {"epoch: 1 | accuracy: 93.5% | time: 3.2 s", "epoch=1 | accuracy=93.5 time=3.2"},
      {"loss: inf step: 3", "step=3 | loss=inf"},
  };
  for (const Case& each : cases)
    CHECK_MESSAGE(read(each.line) == each.found, each.line, " -> ", read(each.line));
}

TEST_CASE("lines of other programs have no place, so nothing in them is a metric") {
  for (const char* line : {
           "Collecting torch==2.1.0",
           "Successfully installed numpy-1.26.4 pandas-2.2.0",
           "     |################################| 12.3 MB 5.2 MB/s eta 0:00:01",
           "Get:1 http://deb.debian.org/debian bookworm InRelease [151 kB]",
           "Fetched 8,123 kB in 2s (3,456 kB/s)",
           "main.cpp:12:5: warning: unused variable 'x' [-Wunused-variable]",
           "172.17.0.1 - - [01/Dec/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 612 \"-\" \"curl/7.88.1\"",
           "node-0:123:456 [0] NCCL INFO Channel 00/02 :    0   1",
           "node-0:123:456 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>",
           "  File \"train.py\", line 10, in <module>",
           "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
           "Namespace(lr=0.1, epochs=3)",
           "INFO:     Uvicorn running on http://0.0.0.0:8000",
           "make[1]: Entering directory '/x'",
           "Loaded 60000 images in 3.2 s",
       }) {
    const std::optional<PrintedMetrics> found = read_printed_metrics(line);
    CHECK_MESSAGE((!found || !found->has_place()), line, " -> ", read(line));
  }
}

TEST_CASE("the lines of one statement have the same shape, and other lines another shape") {
  const auto shape = [](const char* line) { return read_printed_metrics(line).value().shape; };
  CHECK(shape("step 1: loss 0.5, acc 0.1") == shape("step 200: loss 12e-3, acc nan"));
  CHECK(shape("step 1: loss 0.5, acc 0.1") != shape("step 1: loss 0.5"));
  CHECK(shape("10%|#    | 1/10 [00:01<00:09, 1.0it/s, loss=1]") ==
        shape("90%|#### | 9/10 [00:09<00:01, 1.0it/s, loss=0.1]"));
}

TEST_CASE("numbers within other words are no numbers") {
  for (const char* line : {"step=1 a=12,000", "step=1 a=1.2.3", "step=1 a=10:00:00", "step=1 a=2026-11-26",
                           "step=1 a=3rd", "step=1 a=0x10", "step=1 a=5px"}) {
    CHECK_MESSAGE(read(line) == "step=1", line, " -> ", read(line));
  }
}

}  // namespace
}  // namespace mlk
