# Cross-compiles for 64-bit Arm with Debian's compiler and runs programs under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR /usr/bin/qemu-aarch64-static -L /usr/aarch64-linux-gnu)
# Headers of Debian's architecture-independent packages (nlohmann-json, fmt in header-only form).
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
file(GLOB fmt_DIR /usr/lib/*/cmake/fmt)
