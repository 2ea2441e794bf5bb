#include "tools/command_line.hpp"

int main(int argc, char** argv) { return pando::run_command_line({argv + 1, argv + argc}); }
