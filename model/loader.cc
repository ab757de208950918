#include <ATen/Context.h>
#include <dlfcn.h>

#include <filesystem>

#include "model/forward.h"
#include "model/layers/model.h"
#include "model/layers/random.h"
#include "model/zoo/zoo.h"

namespace embers {
namespace {

using AbiFunction = uint32_t();
using Factory = Model*(const ModelConfig&);

std::string last_error() {
  const char* const text = dlerror();
  return text == nullptr ? "unknown error" : text;
}

// A relative path is looked for in the current directory, then in the job file's.
std::filesystem::path find_library(const job::Job& job) {
  const std::filesystem::path given = job.model.library;
  if (std::filesystem::exists(given)) return std::filesystem::absolute(given);
  const std::filesystem::path beside = std::filesystem::path(job.source.path).parent_path() / given;
  if (std::filesystem::exists(beside)) return std::filesystem::absolute(beside);
  fail(ErrorCode::kInvalid, "model.library '{}' does not exist, neither here nor beside the job file",
       given.string());
}

template <class Function>
Function* symbol(void* library, const char* name, const std::filesystem::path& path) {
  void* const address = dlsym(library, name);
  if (address == nullptr)
    fail(ErrorCode::kInvalid,
         "model library {} does not define {}: end its source with EMBERS_MODEL(YourModel)", path.string(),
         name);
  return reinterpret_cast<Function*>(address);
}

// Never closed: the model's code and its threads may outlive any handle of ours.
Factory* load_factory(const std::filesystem::path& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const std::string why = last_error();
    // See apps/README.md, "stand-ins".
    const bool may_be_empty = why.find("undefined symbol") != std::string::npos;
    fail(ErrorCode::kInvalid, "model library {} does not load: {}{}", path.string(), why,
         may_be_empty ? ". If it uses OpenCV or FFmpeg, set LD_LIBRARY_PATH to their folder, such as "
                        "/usr/lib/x86_64-linux-gnu: this program has empty libraries in their place"
                      : "");
  }
  const uint32_t abi = symbol<AbiFunction>(library, "embers_model_abi", path)();
  if (abi != kModelAbi)
    fail(ErrorCode::kInvalid,
         "model library {} was built for model ABI {}, this embers has {}: build it again against "
         "this embers",
         path.string(), abi, kModelAbi);
  return symbol<Factory>(library, "embers_make_model", path);
}

std::shared_ptr<Model> from_library(const job::Job& job, const ModelConfig& config) {
  std::filesystem::path path;
  Factory* const make = at_place(config.place("library"), [&] {
    path = find_library(job);
    return load_factory(path);
  });
  std::shared_ptr<Model> model(make(config));
  if (!model)
    fail(ErrorCode::kInvalid, "{}: model library {} has no model '{}': set model.name to one that it has",
         config.place("name"), path.string(), config.name());
  return model;
}

}  // namespace

std::shared_ptr<Model> make_model(const job::Job& job) {
  const ModelConfig config(job);
  const auto held = hold_torch_random();
  at::manual_seed(job.job.seed);
  std::shared_ptr<Model> model;
  guard_user_code(job.model.name, "construction", [&] {
    model = job.model.library.empty() ? make_zoo_model(config) : from_library(job, config);
  });
  config.check_all_read();
  return model;
}

}  // namespace embers
