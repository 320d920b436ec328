#include "cli/experiment/schema.h"

#include <stdexcept>

#include "cli/experiment/arguments.h"

namespace mlk {

namespace {

using enum Type;

constexpr Key experiment_keys[] = {
    {"name", dns_label, "40", required, "names the run: <name>-<5 characters of its hash>"},
    {"mode", text, "", required, "job type: single, ps, allreduce or one of your own"},
    {"image", text, "", "", "container image of all roles"},
    {"image_pull_policy", choice, "IfNotPresent|Always|Never", "IfNotPresent", "when nodes pull the image"},
    {"image_pull_secrets", object_names, "", "[]", "Secrets with the registry's credentials"},
    {"registry", text, "", "", "where mlk puts images that it builds, as registry.example/team"},
    {"train", section, "train", "", "what the bundled runtime trains"},
    {"run", command, "", "", "any other program instead of train"},
    {"args", arguments, "", "", "arguments of `run`, which are parameters: {lr: 0.1} becomes --lr 0.1"},
    {"args_style", choice, argument_styles, "",
     "the form of the arguments; default: --name value. The name and the value of lr: 0.1 take their places"},
    {"framework", text, "", "",
     "the framework whose variables a program of `run` gets beside MLK_*: torch, tensorflow, jax, mpi or "
     "one of your own"},
    {"elastic", boolean, "", "",
     "the framework's launcher starts `run`, and starts it again when workers come or go"},
    {"code", path_section, "code", "", "a folder that travels with the run, in which `run` starts"},
    {"workdir", path, "or relative", "",
     "working folder of `run`; the image's own by default. With code it is a folder in that"},
    {"user", pod_user, "", "",
     "as whom the program runs: a number, image, or auto: the image's number where that is known, else 1000"},
    {"workers", section, "role", "", "short for roles.worker"},
    {"servers", section, "role", "", "short for roles.server"},
    {"roles", section_map, "role", "{}", "number and resources of the replicas of each role"},
    {"parameters", free_map, "", "{}", "parameters of a job type of your own"},
    {"env", environment, "", "{}", "environment of all containers"},
    {"data", sections, "data", "[]", "volumes with data"},
    {"checkpoint", section, "checkpoint", "{}", "how often the runtime saves its state, and where"},
    {"outputs", path_section, "outputs", "", "folders of `run` whose files stay when its pods end"},
    {"metrics", section, "metrics", "", "where metrics go, beside the log"},
    {"scheduling", section, "scheduling", "{}", "where and how pods are placed"},
    {"restart", section, "restart", "{}", "what is tried again after a loss"},
    {"time_limit", duration, "", "", "the run fails when it takes longer"},
    {"start_timeout", duration, "", "15m", "how long the run may take until workers.min have started"},
    {"service_account", object_name, "", "", "ServiceAccount of the pods; its token is not mounted"},
    {"tags", texts, "", "[]", "words to find the run by; no part of its identity"},
    {"note", text, "", "", "a remark for people; no part of the run's identity"},
    {"patch", section, "patch", "", "merged into the rendered objects"},
    {"sweep", section, "sweep", "", "a search over parameters, for mlk sweep"},
};

constexpr Key code_keys[] = {
    {"path", folder, "", "\".\"", "the folder"},
    {"include", texts, "", "[]", "what travels although it would be left out, as data/vocabulary.txt"},
    {"exclude", texts, "", "[]", "what is left out, in addition; patterns as in .gitignore"},
    {"python", path, "or relative", "",
     "a file of requirements in it, whose packages become a layer of the image"},
    {"python_version", text, "", "", "of the image's Python, as 3.11; the image says it by default"},
    {"layer", boolean, "", "",
     "whether it becomes a layer of the image; default: when it is too large for a ConfigMap"},
};

constexpr Key train_keys[] = {
    {"model", section, "model", "{}", "the network"},
    {"data", section, "train.data", required, "the data set"},
    {"optimizer", section, "optimizer", "{}", "how weights are updated"},
    {"precision", choice, "float32|bfloat16|tf32", "float32",
     "of the inputs of matrix products; weights and sums are always float32"},
    {"consistency", consistency, "", "sync", "in mode ps: sync, async or {staleness: N}"},
    {"steps", whole, "1..1000000000000", "", "updates of the whole run, not of one worker"},
    {"epochs", whole, "1..1000000", "", "passes over the training samples, instead of steps"},
    {"seed", whole, "0..9007199254740991", "1", "of the first weights and the order of samples"},
    {"report_every", whole, "1..1000000000", "50", "steps between lines of metrics"},
    {"evaluate_every", whole, "0..1000000000", "500",
     "steps between evaluations on held-out data; 0: only at the end"},
    {"sample", section, "sample", "", "of a gpt: tokens that it goes on with by itself when it is trained"},
    {"step_delay_ms", whole, "0..60000", "0",
     "sleep added to each step of a worker, to stand for a slower device"},
    {"patience", duration, "1000000s", "15m",
     "how long a process waits for lost peers before it exits with 75"},
    {"offline_time", duration, "0s..1000000s", "1m",
     "in mode ps: how long workers go on by themselves while a server is lost"},
};

// variants.cpp says which keys belong to which type or format, and what their defaults are.
constexpr Key model_keys[] = {
    {"type", choice, "mlp|cnn|gpt", "mlp",
     "multi-layer perceptron, convolutional network, or the transformer of GPT-2"},
    {"weights", path, "", "", "safetensors file with the first weights, as the pods see it"},
    {"dropout", number, "0..1)", "", "probability with which training drops an activation; default: 0"},
    {"channels", wholes, "1..4096|16", "", "cnn: channels of each convolution; default: [32, 64]"},
    {"hidden", wholes, "1..65536|100", "", "mlp, cnn: widths of the hidden layers; default: [128]"},
    {"layers", whole, "1..1000", "", "gpt: blocks; default: 12"},
    {"width", whole, "1..65536", "", "gpt: numbers of a token, a multiple of heads; default: 768"},
    {"heads", whole, "1..65536", "", "gpt: heads of attention; default: 12"},
    {"context", whole, "1..65536", "", "gpt: tokens of a sequence; default: 1024"},
};

constexpr Key train_data_keys[] = {
    {"path", path, "", required, "folder with the data set, as the pods see it"},
    {"batch", whole, "1..1000000", "32", "samples per worker and step"},
    {"micro_batch", whole, "1..1000000", "",
     "the most samples whose gradients are computed together; default: all of a batch"},
    {"format", choice, "idx|cifar10|text|tokens", "",
     "IDX files or CIFAR-10; gpt: a text, whose bytes are tokens, or files of tokens; default: idx or text"},
    {"vocabulary", whole, "1..65536", "", "tokens: each of them is below it; default: 50257"},
};

constexpr Key optimizer_keys[] = {
    {"type", choice, "sgd|adam|adamw", "sgd",
     "stochastic gradient descent, Adam, or Adam with a weight decay of its own"},
    {"lr", number, "(0..1000000", "", "learning rate; default: 0.01 with sgd, 0.001 with adam and adamw"},
    {"weight_decay", number, "0..1", "",
     "sgd and adam: added to the gradient; adamw: taken off; default: 0, 0.01 with adamw"},
    {"momentum", number, "0..1)", "", "sgd: 0: none; default: 0.9"},
    {"nesterov", boolean, "", "", "sgd: look ahead along the momentum; default: false"},
    {"beta1", number, "0..1)", "", "adam, adamw: decay of the mean gradient; default: 0.9"},
    {"beta2", number, "0..1)", "", "adam, adamw: decay of the mean square; default: 0.999"},
    {"epsilon", number, "1e-30..1", "", "adam, adamw: added to the root of the mean square; default: 1e-8"},
    {"clip", number, "(0..1000000", "", "the largest norm of a gradient: a larger one is scaled down"},
    {"schedule", section, "schedule", "{}", "how the learning rate changes over the run"},
};

constexpr Key schedule_keys[] = {
    {"type", choice, "constant|linear|cosine|step", "constant",
     "course of the learning rate after the warmup"},
    {"warmup", whole, "0..1000000000000", "0", "steps over which the learning rate grows to its full size"},
    {"final", number, "0..1", "", "linear, cosine: share of lr that is left at the end; default: 0"},
    {"every", whole, "1..1000000000000", "", "step: steps from one decay to the next; required"},
    {"factor", number, "(0..1)", "", "step: what a decay multiplies by; default: 0.1"},
};

constexpr Key sample_keys[] = {
    {"tokens", whole, "1..4096", required, "how many"},
    {"temperature", number, "0..100", "1", "what logits are divided by; 0: the likeliest token each time"},
};

constexpr Key role_keys[] = {
    {"count", whole, "1..5000", "1", "replicas"},
    {"min", whole, "1..5000", "", "workers: the run needs so many to start and to go on; default: all"},
    {"cpu", cpu, "", "1", "CPUs of each replica: its request and its limit"},
    {"memory", memory, "", "1Gi", "memory of each replica: its request and its limit"},
    {"gpu", whole, "0..64", "0",
     "GPUs of each replica (nvidia.com/gpu). A worker of train has one process for each of its GPUs, 16 at "
     "most; data.batch is of a process"},
    {"processes", whole, "1..64", "",
     "run: processes of each replica, which the framework's launcher starts; default: 1"},
    {"patch", section, "role.patch", "", "merged into the objects of this role"},
};

constexpr Key data_keys[] = {
    {"name", dns_label, "40", required, "names the volume"},
    {"mount", path, "", required, "where the pods see it"},
    {"read_only", boolean, "", "true", "mounted so that pods cannot write"},
    {"files", folder, "", "",
     "small files from a folder beside the experiment file; they travel with the run"},
    {"pvc", object_name, "", "", "PersistentVolumeClaim"},
    {"nfs", section, "nfs", "", "export of an NFS server"},
    {"hostPath", path, "", "", "folder of each node"},
    {"csi", section, "csi", "", "inline volume of a CSI driver"},
    {"configMap", object_name, "", "", "ConfigMap"},
    {"emptyDir", section, "emptyDir", "", "scratch space that ends with the pod"},
};

constexpr Key volume_keys[] = {
    {"pvc", object_name, "", "", "PersistentVolumeClaim"},
    {"nfs", section, "nfs", "", "export of an NFS server"},
    {"hostPath", path, "", "", "folder of each node"},
    {"csi", section, "csi", "", "inline volume of a CSI driver"},
    {"emptyDir", section, "emptyDir", "", "ends with the pod: survives a crash of the program only"},
};

constexpr Key nfs_keys[] = {
    {"server", text, "", required, "host name or address"},
    {"path", path, "", required, "exported folder"},
};

constexpr Key csi_keys[] = {
    {"driver", text, "", required, "name of the driver"},
    {"fsType", text, "", "", "file system"},
    {"volumeAttributes", text_map, "", "", "what the driver asks for"},
};

constexpr Key empty_dir_keys[] = {
    {"medium", choice, "Memory", "", "Memory: a tmpfs"},
    {"sizeLimit", memory, "", "", "the pod is evicted when it holds more"},
};

constexpr Key checkpoint_keys[] = {
    {"every", whole, "0..1000000000", "100", "steps; 0: only on SIGTERM and at the end"},
    {"keep", whole, "1..10000", "3", "newest checkpoints that stay"},
    {"volume", section, "checkpoint.volume", "", "where they lie; without one none are written"},
};

constexpr Key outputs_keys[] = {
    {"path", texts, "or one", required, "the folders, below the one in which the program starts"},
    {"to", section, "outputs.to", "",
     "where the files lie; default: checkpoint.volume, or else the claim of MLK_OUTPUTS_CLAIM"},
};

constexpr Key metrics_keys[] = {
    {"port", whole, "1024..65535", "", "every pod answers Prometheus there, at /metrics"},
    {"tensorboard", boolean, "", "false", "event files for TensorBoard, beside the checkpoints"},
};

constexpr Key scheduling_keys[] = {
    {"gang", choice, "auto|none|required", "auto", "whether all pods are to start together"},
    {"queue", later, "queues are not supported yet: leave it out", "",
     "queue of the cluster's batch scheduler"},
    {"priority", object_name, "", "", "PriorityClass of the pods"},
    {"node", section, "node", "{}", "which nodes"},
};

constexpr Key node_keys[] = {
    {"selector", text_map, "", "{}", "labels that a node must have"},
    {"tolerations", sections, "toleration", "[]", "taints that pods tolerate, beside mlk's own"},
};

constexpr Key toleration_keys[] = {
    {"key", text, "", "", "taint; without one all of them (operator Exists)"},
    {"operator", choice, "Equal|Exists", "", "Equal by default"},
    {"value", text, "", "", "of the taint"},
    {"effect", choice, "NoSchedule|PreferNoSchedule|NoExecute", "", "all effects by default"},
    {"tolerationSeconds", whole, "0..1000000000", "", "NoExecute: how long"},
};

constexpr Key restart_keys[] = {
    {"retries", whole, "0..100", "3", "new pods for each rank after losses that count"},
    {"on", retry_rules, "", "", "what is tried again: preemption, exit codes, ranges of them, any"},
};

constexpr Key patch_keys[] = {
    {"pod", free_map, "", "", "merged into each pod template (metadata, spec)"},
    {"job", free_map, "", "", "merged into each Job"},
    {"service", free_map, "", "", "merged into the Service"},
};

// The code in sweeps/ defines the meaning of these values.
constexpr Key sweep_keys[] = {
    {"parameters", free_map, "", "{}", "the values that each parameter may have, by its path"},
    {"points", text, "", "", "a file with one point on each line, beside the experiment file"},
    {"except", any, "", "[]", "combinations that are left out"},
    {"repeat", whole, "1..1000", "1", "trials of each point, each with a seed of its own"},
    {"search", any, "", "", "grid, random, list or tpe"},
    {"stop", any, "", "", "ends bad trials early: asha or median"},
    {"objective", any, "", "", "the objective: maximize METRIC or minimize METRIC"},
    {"parallel", whole, "1..10000", "4", "trials that run at the same time"},
    {"max_failures", whole, "0..1000000", "",
     "how many trials may fail; the sweep ends when more have failed"},
};

constexpr Key role_patch_keys[] = {
    {"pod", free_map, "", "", "merged into the role's pod template, after patch.pod"},
    {"job", free_map, "", "", "merged into the role's Job, after patch.job"},
};

constexpr Section sections_table[] = {
    {"experiment", experiment_keys},
    {"code", code_keys},
    {"train", train_keys},
    {"model", model_keys},
    {"train.data", train_data_keys},
    {"optimizer", optimizer_keys},
    {"schedule", schedule_keys},
    {"sample", sample_keys},
    {"role", role_keys},
    {"data", data_keys},
    {"nfs", nfs_keys},
    {"csi", csi_keys},
    {"emptyDir", empty_dir_keys},
    {"checkpoint", checkpoint_keys},
    {"checkpoint.volume", volume_keys},
    {"outputs", outputs_keys},
    {"outputs.to", std::span(volume_keys).first(4)},  // without emptyDir, which ends with the pod
    {"metrics", metrics_keys},
    {"scheduling", scheduling_keys},
    {"node", node_keys},
    {"toleration", toleration_keys},
    {"restart", restart_keys},
    {"sweep", sweep_keys},
    {"patch", patch_keys},
    {"role.patch", role_patch_keys},
};

void add_settable_keys(const Section& of, const std::string& path, std::vector<std::string>& keys) {
  for (const Key& key : of.keys) {
    const std::string name = path + std::string(key.name);
    if (key.type == section || key.type == path_section) {
      add_settable_keys(schema_section(key.detail), name + ".", keys);
    } else if (key.type == sections) {
      add_settable_keys(schema_section(key.detail), name + ".0.", keys);
    } else if (key.type != section_map && key.type != free_map && key.type != later) {
      keys.push_back(name);
    }
  }
}

}  // namespace

std::vector<std::string> settable_keys() {
  std::vector<std::string> keys;
  add_settable_keys(schema_section("experiment"), "", keys);
  return keys;
}

std::span<const Section> schema() { return sections_table; }

const Section& schema_section(std::string_view name) {
  for (const Section& section : sections_table) {
    if (section.name == name) return section;
  }
  throw std::out_of_range("no section " + std::string(name));
}

}  // namespace mlk
