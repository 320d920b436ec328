// Reads and writes files of weights. Does not trust what it reads.
#include "runtime/checkpoint/weights_file.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <map>
#include <optional>
#include <stdexcept>
#include <vector>

#include "runtime/base/exit_code.h"
#include "runtime/base/json.h"
#include "runtime/checkpoint/checkpoint_format.h"
#include "runtime/checkpoint/disk.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/weights_rules.h"

namespace mlk::rt {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Shape = std::vector<std::int64_t>;

constexpr const char* weights_name = "model.safetensors";
constexpr const char* description_name = "config.json";
constexpr std::string_view prefix = "transformer.", tokens = "transformer.wte.weight",
                           positions = "transformer.wpe.weight", head = "lm_head.weight";
constexpr const char* activation = "gelu_new";  // Hugging Face's name of GPT-2's GELU
constexpr double epsilon = 1e-5;                // of GPT-2's layer norms

float from_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

// IEEE 754's binary16: sign, five bits of the exponent, ten of the fraction.
float from_float16(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16, exponent = (bits >> 10) & 0x1f,
                      fraction = bits & 0x3ff;
  if (exponent == 0) {  // zeros and subnormal numbers
    const float size = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -size : size;
  }
  constexpr std::uint32_t rebias = 127 - 15, infinite = 0xff;
  const std::uint32_t widened = exponent == 0x1f ? infinite : exponent + rebias;
  return std::bit_cast<float>(sign | widened << 23 | fraction << 13);
}

std::string text_of(const Shape& shape) {
  std::string text;
  for (const std::int64_t n : shape) text += (text.empty() ? "" : ", ") + std::to_string(n);
  return "[" + text + "]";
}

// Splits a name such as "transformer.h.3.attn.bias" into the number of the block, 3, and the rest,
// "attn.bias".
std::optional<std::pair<int, std::string_view>> block_of(std::string_view name) {
  constexpr std::string_view before = "transformer.h.";
  if (!name.starts_with(before)) return {};
  name.remove_prefix(before.size());
  int block = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), block);
  if (error != std::errc() || block < 0 || end == name.data() + name.size() || *end != '.') return {};
  return std::pair(block, name.substr(static_cast<std::size_t>(end - name.data()) + 1));
}

class WeightsFile {
 public:
  WeightsFile(const std::string& path, const ModelConfig& model, std::span<const TensorInfo> wanted)
      : path_(path), gpt_(model.type == ModelType::gpt), wanted_(wanted) {
    open();
    if (gpt_) compare_sizes(model);
    compare_tensors();
  }

  kernels::Floats read();

 private:
  [[noreturn]] void refuse(ExitCode code, const std::string& what) const {
    throw Failure(code, path_ + ": " + what);
  }
  [[noreturn]] void refuse_file(const std::string& what) const { refuse(ExitCode::bad_data, what); }
  [[noreturn]] void refuse_model(const std::string& what) const { refuse(ExitCode::bad_configuration, what); }

  void open();
  void add(SafeTensor tensor, const std::string& wrapper);
  void compare_sizes(const ModelConfig& model) const;
  void compare_description(const ModelConfig& model) const;
  void compare_tensors();
  void check_type(const SafeTensor& tensor) const;
  void read(const SafeTensor& tensor, std::span<float> into);
  void require_numbers(const SafeTensor& tensor, std::span<const float> values) const;

  std::string path_;
  bool gpt_;
  std::span<const TensorInfo> wanted_;
  std::ifstream stream_;
  std::size_t data_begin_ = 0;
  std::map<std::string, SafeTensor> found_;  // by their names in the model
};

void WeightsFile::open() {
  std::error_code error;
  if (fs::is_directory(path_, error)) refuse_file("it is a folder: name the file in it, model.safetensors");
  const std::uint64_t size = fs::file_size(path_, error);
  if (error) refuse_file(error.message());
  stream_.open(path_, std::ios::binary);
  const auto read_text = [&](std::uint64_t count) {
    std::string text(count, '\0');
    if (!stream_.read(text.data(), static_cast<std::streamsize>(count))) refuse_file("cannot be read");
    return text;
  };
  std::string head_of_file;
  try {
    head_of_file = read_text(std::min<std::uint64_t>(sizeof(std::uint64_t), size));
    head_of_file += read_text(safetensors_header_size(head_of_file, size) - head_of_file.size());
    SafeTensorsFile parsed = parse_safetensors(head_of_file, size);
    data_begin_ = parsed.data_begin;
    std::vector<std::string> names;
    for (const SafeTensor& tensor : parsed.tensors) names.push_back(tensor.name);
    const std::string wrapper = wrapper_of(names);
    for (SafeTensor& tensor : parsed.tensors) add(std::move(tensor), wrapper);
  } catch (const Failure&) {
    throw;
  } catch (const std::runtime_error& malformed) {
    std::string beginning(std::min<std::uint64_t>(16, size), '\0');
    stream_.clear();
    stream_.seekg(0);
    stream_.read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
    const std::string foreign = foreign_format(beginning);
    refuse_file(foreign.empty() ? malformed.what() : foreign);
  }
}

void WeightsFile::add(SafeTensor tensor, const std::string& wrapper) {
  std::string name = tensor.name.substr(wrapper.size());
  if (gpt_ && !name.starts_with(prefix) && name != head) name.insert(0, prefix);
  const auto block = gpt_ ? block_of(name) : std::nullopt;
  if (block && (block->second == "attn.bias" || block->second == "attn.masked_bias")) return;
  if (!found_.emplace(name, std::move(tensor)).second) refuse_file("it has " + name + " twice");
}

// Throws if the file is of a GPT of other sizes. The message lists the sizes that differ, or the vocabulary
// if nothing else differs, in the syntax of an experiment.
void WeightsFile::compare_sizes(const ModelConfig& model) const {
  std::string of_model, of_data;
  const auto compare = [](std::string& differing, const char* key, std::int64_t has, std::int64_t wanted) {
    if (has != wanted) differing += (differing.empty() ? "" : ", ") + (key + (": " + std::to_string(has)));
  };
  const auto has_rows = [this](std::string_view name) {
    const auto at = found_.find(std::string(name));
    return at != found_.end() && at->second.shape.size() == 2 ? &at->second.shape : nullptr;
  };
  std::int64_t layers = 0;
  for (const auto& [name, tensor] : found_) {
    if (const auto block = block_of(name))
      layers = std::max<std::int64_t>(layers, std::int64_t{block->first} + 1);
  }
  if (layers == 0)
    refuse_model("it has no tensor h.0.ln_1.weight, and so is of no GPT-2" +
                 (found_.empty() ? std::string() : "; one of its tensors is " + found_.begin()->second.name));
  compare(of_model, "layers", layers, model.layers);
  if (const Shape* shape = has_rows(tokens)) {
    compare(of_model, "width", shape->back(), model.width);
    compare(of_data, "vocabulary", shape->front(), wanted_.front().shape.front());
  }
  if (const Shape* shape = has_rows(positions)) compare(of_model, "context", shape->front(), model.context);
  if (!of_model.empty()) refuse_model("it is of a GPT of another size: write model: {" + of_model + "}");
  if (!of_data.empty()) {
    refuse_model("it is of a GPT with other tokens: write data: {format: tokens, " + of_data + "}");
  }
  compare_description(model);
}

// Compares the model with config.json, because the file of weights shows neither the number of heads nor
// every setting of the model.
void WeightsFile::compare_description(const ModelConfig& model) const {
  const fs::path path = fs::path(path_).parent_path() / description_name;
  constexpr std::size_t limit = 1 << 20;
  std::string text(limit, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(limit));
  if (!file.eof()) return;
  text.resize(static_cast<std::size_t>(file.gcount()));
  json description;
  try {
    description = parse_json(text, path.string());
  } catch (const std::runtime_error&) {
    return;  // a config.json that is not JSON does not describe the weights
  }
  if (!description.is_object() || description.value("model_type", json()) != "gpt2") return;
  std::string differing;
  for (const std::string& line : computed_otherwise(description, model))
    differing += (differing.empty() ? "" : "; ") + line;
  if (!differing.empty()) throw Failure(ExitCode::bad_configuration, path.string() + ": " + differing);
}

void WeightsFile::check_type(const SafeTensor& tensor) const {
  if (tensor.type != "F32" && tensor.type != "F16" && tensor.type != "BF16")
    refuse_file(tensor.name + " has the type " + tensor.type + "; F32, F16 and BF16 can be read");
}

void WeightsFile::compare_tensors() {
  for (const TensorInfo& tensor : wanted_) {
    const auto found = found_.find(tensor.name);
    if (found == found_.end()) refuse_model("it lacks the model's tensor " + tensor.name);
    if (found->second.shape != tensor.shape) {
      refuse_model(found->second.name + " is " + text_of(found->second.shape) + ", and the model's is " +
                   text_of(tensor.shape));
    }
    check_type(found->second);
  }
  for (const auto& [name, tensor] : found_) {
    const bool known = std::ranges::any_of(wanted_, [&](const TensorInfo& one) { return one.name == name; });
    if (!known && !(gpt_ && name == head)) refuse_model("the model has no tensor " + tensor.name);
  }
  const auto output = found_.find(std::string(head));
  if (output == found_.end()) return;
  check_type(output->second);
  if (output->second.shape != wanted_.front().shape)
    refuse_model(std::string(head) + " has not the shape of " + std::string(tokens));
}

void WeightsFile::read(const SafeTensor& tensor, std::span<float> into) {
  stream_.seekg(static_cast<std::streamoff>(data_begin_ + tensor.offset));
  const auto get = [&](void* place, std::size_t bytes) {
    if (!stream_.read(static_cast<char*>(place), static_cast<std::streamsize>(bytes)))
      refuse_file("cannot be read");
  };
  if (tensor.type == "F32") return get(into.data(), into.size_bytes());
  std::vector<std::uint16_t> block(std::min<std::size_t>(into.size(), 1 << 16));
  for (std::size_t at = 0; at < into.size(); at += block.size()) {
    const std::size_t count = std::min(block.size(), into.size() - at);
    get(block.data(), count * sizeof(std::uint16_t));
    std::transform(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(count),
                   into.begin() + static_cast<std::ptrdiff_t>(at),
                   tensor.type == "F16" ? from_float16 : from_bfloat16);
  }
}

void WeightsFile::require_numbers(const SafeTensor& tensor, std::span<const float> values) const {
  const auto odd = std::ranges::find_if_not(values, [](float value) { return std::isfinite(value); });
  if (odd == values.end()) return;
  refuse_file(tensor.name + " holds " + (std::isnan(*odd) ? "NaN" : "infinite numbers") +
              ": no model can be trained from it");
}

kernels::Floats WeightsFile::read() {
  kernels::Floats parameters(parameter_count(wanted_));
  for (const TensorInfo& tensor : wanted_) {
    const SafeTensor& found = found_.at(tensor.name);
    const auto into = std::span(parameters).subspan(tensor.offset, tensor.size);
    read(found, into);
    require_numbers(found, into);
  }
  const auto output = found_.find(std::string(head));
  if (output != found_.end()) {
    kernels::Floats logits(wanted_.front().size);
    read(output->second, logits);
    if (std::memcmp(logits.data(), parameters.data(), logits.size() * sizeof(float)) != 0) {
      refuse_model(std::string(head) + " differs from " + std::string(tokens) +
                   ", and a gpt has one tensor for both");
    }
  }
  return parameters;
}

// Calls `write` for a temporary file in the same folder, and then renames that file to `path`.
template <typename Write>
void replace_file(const fs::path& path, Write write) {
  const fs::path aside = path.parent_path() / (".tmp-" + path.filename().string() + "-" + random_name());
  try {
    write(aside);
    fs::rename(aside, path);
  } catch (const std::exception&) {
    remove_quietly(aside);
    throw;
  }
}

// The content that GPT2LMHeadModel.from_pretrained() needs.
json description_of(const ModelConfig& model, std::int64_t vocabulary) {
  constexpr std::int64_t end_of_text = 50256;  // of GPT-2's own tokens
  const json end = vocabulary > end_of_text ? json(end_of_text) : json();
  return {{"model_type", "gpt2"},          {"architectures", {"GPT2LMHeadModel"}},
          {"vocab_size", vocabulary},      {"n_positions", model.context},
          {"n_embd", model.width},         {"n_layer", model.layers},
          {"n_head", model.heads},         {"activation_function", activation},
          {"layer_norm_epsilon", epsilon}, {"resid_pdrop", model.dropout},
          {"embd_pdrop", model.dropout},   {"attn_pdrop", 0.0},
          {"bos_token_id", end},           {"eos_token_id", end}};
}

}  // namespace

kernels::Floats read_weights(const std::string& path, const ModelConfig& model,
                             std::span<const TensorInfo> wanted) {
  return WeightsFile(path, model, wanted).read();
}

void write_weights(const fs::path& folder, const ModelConfig& model,
                   std::span<const TensorInfo> tensors_of_model, std::span<const float> parameters) {
  fs::create_directories(folder);
  std::vector<SafeTensor> tensors;
  for (const TensorInfo& tensor : tensors_of_model) {
    tensors.push_back(
        {tensor.name, tensor.shape, tensor.offset * sizeof(float), tensor.size * sizeof(float)});
  }
  if (model.type == ModelType::gpt) {
    const json description = description_of(model, tensors.front().shape.front());
    replace_file(folder / description_name,
                 [&](const fs::path& aside) { write_text(aside, description.dump(2) + "\n"); });
  }
  replace_file(folder / weights_name, [&](const fs::path& aside) {
    // transformers refuses a file whose metadata does not say that its tensors are PyTorch's.
    const std::string header = safetensors_header(tensors, {{"format", "pt"}});
    Descriptor file(aside, O_WRONLY | O_CREAT | O_EXCL, 0644);
    file.write_all(header.data(), header.size());
    file.write_all(parameters.data(), parameters.size_bytes());
    file.sync();
  });
  sync_folder(folder);
}

}  // namespace mlk::rt
