# Writes OUT: the compiler, the version and the commit it was built from, or `unknown` outside a git checkout.
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD
  OUTPUT_VARIABLE sha OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(sha unknown)
else()
  execute_process(COMMAND git -C ${SOURCE} diff-index --quiet HEAD -- RESULT_VARIABLE dirty ERROR_QUIET)
  if(dirty)
    string(APPEND sha ".dirty")
  endif()
endif()
set(text "#include \"harness/study/environment.hpp\"

namespace um {

std::string version_text() { return \"${VERSION}+${sha}\"; }
std::string compiler_text() { return \"${COMPILER}\"; }

}  // namespace um
")
set(before "")
if(EXISTS ${OUT})
  file(READ ${OUT} before)
endif()
if(NOT before STREQUAL text)
  file(WRITE ${OUT} "${text}")
endif()
