// SPDX-License-Identifier: Apache-2.0
//
// Reads the descriptions of errors in the vendor's cuda.h: each after which "the process must be terminated" is a loss of the
// device to the backend, or leaves a doubt that it clears by a second question. A code that a later header brings fails here
// until somebody has decided about it. And nothing else is a loss but what is named below.
//
//   mirror_cuda_losses PATH_OF_CUDA_H

#include "backends/cuda/fault.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <cctype>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

namespace {

namespace result = weir::cuda::abi::result;

/// Losses of which the header does not say so in these words.
constexpr int other_losses[] = {
    result::deinitialized,         // the driver goes down with the process
    result::ecc_uncorrectable,     // the context is ended by it
    result::nvlink_uncorrectable,  // likewise
    result::context_is_destroyed,  // with all that was made in it
    result::device_assert,         // "the context cannot be used anymore"
    result::mps_rpc_failure,       // the server is gone, and with it what the client had
};

struct Error {
  std::string name, description;
  int code = 0;
};

std::string read(const char *path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

/// "CUDA_ERROR_INVALID_VALUE = 1"; false if there is none.
bool read_enumerator(const std::string &text, Error *error) {
  const size_t name = text.find("CUDA_");
  const size_t equals = text.find('=', name);
  if (name == std::string::npos || equals == std::string::npos) return false;
  size_t end = equals;
  while (end > name && is_space(text[end - 1])) --end;
  char *rest = nullptr;
  error->code = static_cast<int>(std::strtol(&text[equals + 1], &rest, 10));
  error->name = text.substr(name, end - name);
  return rest != &text[equals + 1];
}

/// A comment without its lines' beginnings.
std::string in_one_line(const std::string &comment) {
  std::string line;
  for (const char c : comment) {
    const bool gap = is_space(c) || c == '*';
    if (!gap) line += c;
    if (gap && !line.empty() && line.back() != ' ') line += ' ';
  }
  return line;
}

/// The enumerators of CUresult with the comments before them, in one line each.
std::vector<Error> errors_of(const std::string &header) {
  std::vector<Error> errors;
  const size_t begin = header.find("typedef enum cudaError_enum");
  const size_t end = header.find("} CUresult", begin);
  if (begin == std::string::npos || end == std::string::npos) return errors;
  size_t at = begin;
  for (;;) {
    const size_t comment = header.find("/**", at);
    const size_t after = header.find("*/", comment);
    if (comment >= end || after >= end) return errors;
    at = after + 2;
    Error error;
    const std::string next = header.substr(at, std::min<size_t>(header.find("/**", at), end) - at);
    if (!read_enumerator(next, &error)) continue;
    error.description = in_one_line(header.substr(comment + 3, after - comment - 3));
    errors.push_back(error);
  }
}

bool ends_the_process(const Error &error) {
  return error.description.find("process must be terminated") != std::string::npos;
}

/// What is wrong with it, or nullptr.
const char *fault_of(const Error &error) {
  const bool lost = weir::cuda::classify(error.code) == WEIR_ERROR_DEVICE_LOST;
  const bool doubt = weir::cuda::leaves_doubt(error.code);
  if (lost && doubt) return "is a loss and leaves a doubt";
  if (ends_the_process(error)) {
    return lost || doubt ? nullptr : "ends the process, and is no loss to the backend";
  }
  const bool named = std::find(std::begin(other_losses), std::end(other_losses), error.code) !=
                     std::end(other_losses);
  if (lost != named) return named ? "is no loss to the backend" : "is a loss without a reason";
  return nullptr;
}

}  // namespace

int main(int count, char **arguments) {
  const std::vector<Error> errors = errors_of(count == 2 ? read(arguments[1]) : std::string());
  const auto ending =
      static_cast<size_t>(std::count_if(errors.begin(), errors.end(), ends_the_process));
  std::printf("%zu errors, after %zu of them the process must end\n", errors.size(), ending);
  // So few can only mean that the header is written in another way than this program reads.
  bool good = errors.size() >= 80 && ending >= 9;
  for (const Error &error : errors) {
    const char *fault = fault_of(error);
    if (fault == nullptr) continue;
    std::printf("%s (%d) %s\n", error.name.c_str(), error.code, fault);
    good = false;
  }
  return good ? 0 : 1;
}
