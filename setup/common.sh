# shellcheck shell=bash
# What ./quickstart and ./check share: installing what is missing, finding CUDA, building.
# Sourced from bash with the repository as working directory; every function says what it does.

# System packages only: another python3 earlier in PATH would not see Debian's modules.
python=/usr/bin/python3
venv=build/venv
torch_python=build/torch/bin/python

system_packages=(
  g++ cmake ninja-build ccache
  libcli11-dev nlohmann-json3-dev libfmt-dev libgtest-dev libbenchmark-dev
  python3 python3-venv python3-pip python3-setuptools python3-wheel python3-matplotlib python3-scipy python3-jsonschema
  python3-jinja2 python3-pytest
)

say() { printf '\n== %s\n' "$*"; }
note() { printf '   %s\n' "$*"; }
die() {
  printf 'error: %s\n' "$1" >&2
  exit "${2:-1}"
}

missing_packages() {
  local name
  for name in "${system_packages[@]}"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null) == installed ]] || echo "$name"
  done
}

# Installs the system packages that are missing; calls apt only if there are any.
install_system_packages() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    say "No apt-get here: going on with what is installed"
    note "On Debian or Ubuntu the packages would be: ${system_packages[*]}"
    return
  fi
  local missing as_root=()
  mapfile -t missing < <(missing_packages)
  if ((${#missing[@]} == 0)); then
    say "System packages: all there"
    return
  fi
  local order="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
  if ((EUID != 0)); then
    command -v sudo >/dev/null && { [[ -t 0 ]] || sudo -n true 2>/dev/null; } ||
      die "system packages are missing and there is no sudo; as root: $order" 2
    as_root=(sudo)
  fi
  mkdir -p build
  say "Installing with apt (log in build/apt.log): ${missing[*]}"
  {
    "${as_root[@]}" apt-get update -q || echo "apt-get update failed; trying with the lists at hand"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -q --no-install-recommends "${missing[@]}" </dev/null
  } >build/apt.log 2>&1 || {
    tail -n 20 build/apt.log >&2
    die "apt could not install the packages; mend it and run again, or as root: $order" 2
  }
  note "done in $SECONDS s"
}

has_gpu() {
  [[ -e /dev/nvidia0 ]] || { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU'; }
}

# The roots where a toolkit usually is, best first.
cuda_candidates() {
  local nvcc
  [[ -n ${CUDA_HOME:-} ]] && echo "$CUDA_HOME"
  [[ -n ${CUDA_PATH:-} ]] && echo "$CUDA_PATH"
  if nvcc=$(command -v nvcc); then dirname "$(dirname "$(readlink -f "$nvcc")")"; fi
  echo /usr/local/cuda
  printf '%s\n' /usr/local/cuda-* | sort -rV
  echo /opt/cuda
}

# "13.0" for a toolkit's root.
cuda_version() { "$1/bin/nvcc" --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\),.*/\1/p'; }

at_least() { [[ $(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1) == "$1" ]]; }

# The folder of cudnn.h of version 9 or newer, or nothing.
cudnn_include() {
  local folder
  for folder in ${CUDNN_ROOT:+"$CUDNN_ROOT/include"} ${CUDNN_HOME:+"$CUDNN_HOME/include"} "$1/include" \
    "$1/targets/$(uname -m)-linux/include" "/usr/include/$(uname -m)-linux-gnu" /usr/include /usr/local/include; do
    if [[ -e $folder/cudnn.h ]] && grep -qsE '^#define CUDNN_MAJOR (9|[1-9][0-9])' "$folder/cudnn_version.h"; then
      echo "$folder"
      return
    fi
  done
}

how_to_get_cuda() {
  local system
  system=$(. /etc/os-release 2>/dev/null && echo "${ID:-}${VERSION_ID:-}" | tr -d .)
  note "To build the CUDA backend, get the toolkit and cuDNN from NVIDIA's apt repository, as root:"
  note "    wget https://developer.download.nvidia.com/compute/cuda/repos/${system:-debian12}/x86_64/cuda-keyring_1.1-1_all.deb"
  note "    apt-get install ./cuda-keyring_1.1-1_all.deb && apt-get update"
  note "    apt-get install cuda-toolkit-13-0 cudnn9-cuda-13"
  note "CUDA 12.4 or newer with cuDNN 9 does. Elsewhere than in /usr/local, name them in CUDA_HOME and CUDNN_ROOT."
  note "Then run this again."
}

# Sets cuda_root and cudnn_dir; leaves them empty, and says why, where there is no use of them.
find_cuda() {
  cuda_root='' cudnn_dir=''
  local root version why='no CUDA toolkit found'
  while read -r root; do
    [[ -x $root/bin/nvcc ]] || continue
    version=$(cuda_version "$root")
    if [[ -z $version ]] || ! at_least 12.4 "$version"; then
      [[ -n $cuda_root ]] || why="the CUDA toolkit at $root is ${version:-broken}; 12.4 or newer is needed"
      continue
    fi
    cudnn_dir=$(cudnn_include "$root")
    if [[ -n $cudnn_dir ]]; then
      cuda_root=$root
      say "CUDA $version at $cuda_root, cuDNN headers in $cudnn_dir"
      has_gpu || note "No GPU on this machine: what needs one is compiled but skipped."
      return
    fi
    why="CUDA $version at $root, but no cuDNN 9 headers beside it or in /usr/include"
  done < <(cuda_candidates)
  say "Simulator only: $why"
  if has_gpu; then
    note "There is a GPU here."
    how_to_get_cuda
  fi
}

# What only PyPI has: the headers of cuDNN's graph interface. Sets frontend_dir.
install_python_packages() {
  frontend_dir=$(frontend_include)
  if [[ -z $frontend_dir ]]; then
    say "Installing from PyPI into $venv: $(tr '\n' ' ' <setup/requirements.txt)"
    [[ -x $venv/bin/pip ]] || "$python" -m venv "$venv" || die "no virtual environment could be made in $venv"
    "$venv/bin/pip" install -q --disable-pip-version-check --no-deps -r setup/requirements.txt ||
      die "pip could not install nvidia-cudnn-frontend; mend it and run again"
    frontend_dir=$(frontend_include)
  fi
  [[ -n $frontend_dir ]] || die "nvidia-cudnn-frontend in $venv has no cudnn_frontend.h"
}

# HiGHS, which tvdnn_ilp and exact optima need; everything else does without.
install_solver() {
  compgen -G "$venv/lib/python3*/site-packages/highsbox" >/dev/null && return
  [[ -e /usr/include/highs/interfaces/highs_c_api.h || $(uname -m) != x86_64 ]] && return
  say "Installing from PyPI into $venv: $(tr '\n' ' ' <setup/optional.txt)"
  [[ -x $venv/bin/pip ]] || "$python" -m venv "$venv" &&
    "$venv/bin/pip" install -q --disable-pip-version-check --no-deps -r setup/optional.txt ||
    note "not to be had: tvdnn_ilp will be unsupported, all else works"
}

# PyTorch and models for the tests in tests/torch, in an environment that sees Debian's modules as well.
install_torch() {
  [[ -x $torch_python ]] && "$torch_python" -c 'import torch, torchvision, transformers' 2>/dev/null && return
  local log=build/torch.log
  say "Installing from PyPI into build/torch (log in $log): $(tr '\n' ' ' <setup/torch.txt)"
  "$python" -m venv --system-site-packages build/torch &&
    build/torch/bin/pip install --disable-pip-version-check --only-binary :all: -r setup/torch.txt >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    die "pip could not install PyTorch; mend it and run again, or leave --torch out"
  }
  note "downloaded $(downloaded_megabytes "$log") MB, done in $SECONDS s"
}

# Sums the sizes that pip tells, such as "(1.2 GB)".
downloaded_megabytes() {
  sed -nE 's/^ *Downloading .*\(([0-9.]+) ([kMG]?)B\)$/\1 \2/p' "$1" |
    awk '{ sum += $1 * ($2 == "G" ? 1000 : $2 == "M" ? 1 : 0.001) } END { printf "%.0f", sum }'
}

frontend_include() {
  local header
  for header in "$venv"/include/cudnn_frontend.h "$venv"/lib/python3*/site-packages/include/cudnn_frontend.h; do
    [[ -e $header ]] && (cd "$(dirname "$header")" && pwd) && return
  done
  return 0
}

# configure_and_build PRESET [cmake options ...] [-- targets ...]
configure_and_build() {
  local preset=$1 options=() targets=()
  shift
  while (($#)) && [[ $1 != -- ]]; do
    options+=("$1")
    shift
  done
  (($#)) && shift
  (($#)) && targets=(--target "$@")
  say "Configuring: preset $preset"
  cmake --preset "$preset" -DUM_JOIN=ON "${options[@]}" || die "cmake could not configure the preset $preset"
  say "Building in build/$preset with $(nproc) jobs"
  cmake --build --preset "$preset" --parallel "$(nproc)" "${targets[@]}" || die "the build failed"
}

# Sets options to what CMake must be told to build the CUDA backend found by find_cuda.
cuda_options() {
  options=(-DUM_CUDA=ON -DCMAKE_CUDA_COMPILER="$cuda_root/bin/nvcc" -DCUDAToolkit_ROOT="$cuda_root"
    -DCUDNN_ROOT="$(dirname "$cudnn_dir")" -DCUDNN_FRONTEND_INCLUDE="$frontend_dir")
}
