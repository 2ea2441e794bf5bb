# Copies FROM to TO with an entry more in its list: `#include "HEADER"` at the top, and ENTRY behind
# the line that has LIST.
file(READ ${FROM} text)
string(FIND "${text}" "${LIST}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "${FROM} has no line with '${LIST}'")
endif()
string(SUBSTRING "${text}" ${at} -1 tail)
string(FIND "${tail}" "\n" line_end)
math(EXPR at "${at} + ${line_end} + 1")
string(SUBSTRING "${text}" 0 ${at} head)
string(SUBSTRING "${text}" ${at} -1 tail)
file(WRITE ${TO} "#include \"${HEADER}\"\n${head}${ENTRY}\n${tail}")
