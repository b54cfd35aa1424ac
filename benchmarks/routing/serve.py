"""Serves a GGUF file over OpenAI's protocol on loopback, until it is ended.

    serve.py FILE NAME THREADS SLOTS ADDRESS

It writes the address of the endpoint to the file ADDRESS when the model answers.
"""

import os
import sys
import threading

import xllamacpp

path, name, threads, slots, address = sys.argv[1:]

params = xllamacpp.CommonParams()
params.model.path = path
params.model_alias = {name}
params.hostnames = ["127.0.0.1"]
params.port = 0
params.n_ctx = 8192 * int(slots)  # which the slots share
params.n_parallel = int(slots)
params.cache_ram_mib = 1024  # of prompts, besides the one that was used last
params.use_jinja = True  # templates of the model itself, which know tools
params.sampling.seed = 1
params.sampling.temp = 0
params.cpuparams.n_threads = int(threads)
params.cpuparams_batch.n_threads = int(threads)

server = xllamacpp.Server(params)
with open(address + ".new", "w") as f:
    f.write(server.listening_address + "/v1\n")
os.rename(address + ".new", address)
threading.Event().wait()
