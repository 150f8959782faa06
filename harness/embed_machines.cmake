# Writes OUT: the text of every machine file, for machines.cpp.
set(rows "")
foreach(file ${FILES})
  file(READ ${file} text)
  get_filename_component(name ${file} NAME)
  string(APPEND rows "      {\"${name}\", R\"um(${text})um\"},\n")
endforeach()
file(WRITE ${OUT} "#include \"harness/json/input_files.hpp\"

namespace um {

std::vector<machine_text> embedded_machines() {
  return {
${rows}  };
}

}  // namespace um
")
