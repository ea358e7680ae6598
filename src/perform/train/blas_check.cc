#include "perform/train/blas_check.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

namespace tombolo::train {

std::string blas_library() {
  // The first definition in the order of the loader is the one that LibTorch calls.
  void* symbol = dlsym(RTLD_DEFAULT, "sgemm_");
  Dl_info info{};
  if (symbol == nullptr || dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(info.dli_fname, error);
  return error ? std::string(info.dli_fname) : file.string();
}

bool is_netlib(std::string_view library) {
  const std::filesystem::path file{std::string(library)};
  if (!file.filename().string().starts_with("libblas.so")) return false;
  const std::string folder = file.parent_path().filename().string();
  // OpenBLAS, BLIS and ATLAS also bring a libblas.so.3, each in a folder with its name.
  for (const char* fast : {"openblas", "blis", "atlas", "mkl"}) {
    if (folder.starts_with(fast)) return false;
  }
  return true;
}

Status check_blas(const std::string& library) {
  const char* hint =
      "install OpenBLAS: apt-get install libopenblas0-pthread. If it is there, select it: "
      "update-alternatives --config libblas.so.3-x86_64-linux-gnu, and take netlib's folder out of "
      "LD_LIBRARY_PATH";
  if (library.empty()) return unusable("no BLAS library provides sgemm_", hint);
  if (is_netlib(library)) {
    return unusable(
        fmt::format("{}: matrix products would run on the slow netlib BLAS, about 6 GFLOP/s a core "
                    "instead of 90",
                    library),
        hint);
  }
  return {};
}

Status check_blas() { return check_blas(blas_library()); }

bool use_blas_threads(int threads) {
  void* symbol = dlsym(RTLD_DEFAULT, "openblas_set_num_threads");
  if (symbol == nullptr) return false;
  reinterpret_cast<void (*)(int)>(symbol)(threads);
  return true;
}

}  // namespace tombolo::train
