// cuDNN and cuBLASLt are opened at their first call: opening them takes longer than a command that needs no
// GPU.
#pragma once

namespace um {

// A library is opened by its name or, if that fails, by its path.
struct library_names {
  const char* soname;
  const char* build_path;                           // its path when umbench was built
  const library_names* required_library = nullptr;  // library to open first, since the loader may not find it
};

extern const library_names cublas, cudnn;

// Throws unsupported if there is no such library or it lacks the symbol.
void* symbol_of(const library_names& library, const char* symbol);

// Calls the function that the library has under the name of `Declared`.
template <auto Declared, class... T>
auto forward_to(const library_names& library, const char* symbol, T... arguments) {
  static const auto real = reinterpret_cast<decltype(Declared)>(symbol_of(library, symbol));
  return real(arguments...);
}

}  // namespace um
