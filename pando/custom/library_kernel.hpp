// How kernels of users' ops are named in programs.
#pragma once

namespace pando {

/// The kinds of kernels that compute an op of a library, on memory of the host: with contiguous
/// inputs, and with inputs of any strides. A target may have them or not. They have the attributes
/// below beside those of the op, none of which begins with `library_`.
inline constexpr const char* kLibraryKernel = "LibraryOp";
inline constexpr const char* kStridedLibraryKernel = "StridedLibraryOp";

inline constexpr const char* kLibraryOpAttribute = "library_op";      // its kind
inline constexpr const char* kLibraryHashAttribute = "library_hash";  // of the library's file
inline constexpr const char* kLibrarySiteAttribute = "library_site";  // the op and its line

}  // namespace pando
