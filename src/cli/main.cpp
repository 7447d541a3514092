#include <csignal>

#include "program.h"

int main(int argc, char** argv) {
  // A file-size limit then shows up as a failed write, which is reported and cleaned up after.
  std::signal(SIGXFSZ, SIG_IGN);
  return fusedmoe::cli::run_program(argc, argv);
}
