#!/usr/bin/env python3
"""Records /spec/events of a running server as JSON lines, while it answers prompts under changing modes.

Usage: record-session.py URL > tests/fixtures/session.jsonl. The screenshots are rendered from this file.
"""
import json
import os
import sys
import threading
import time
import urllib.request

URL = sys.argv[1]
STEPS = [
    ({"mode": "off"}, "What is a binary search tree?", 60),
    ({"mode": "dflash", "block_size": 8}, "Explain the quicksort algorithm in 3 sentences", 256),
    ({"mode": "ddtree", "tree_budget": 16}, "Write a Python function fibonacci(n) using iteration", 150),
]
done = False


def call(method, path, body):
    request = urllib.request.Request(
        URL + path, json.dumps(body).encode(), {"Content-Type": "application/json"}, method=method
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def listen():
    name = None
    with urllib.request.urlopen(URL + "/spec/events") as stream:
        for raw in stream:
            line = raw.decode().rstrip("\n")
            if line.startswith("event:"):
                name = line[6:].strip()
            elif line.startswith("data:"):
                data = json.loads(line[5:].replace(os.path.expanduser("~"), "~"))
                print(json.dumps({"event": name, "data": data, "at_ms": int(time.time() * 1000)}, ensure_ascii=False))
            if done:
                return


thread = threading.Thread(target=listen)
thread.start()
time.sleep(1)
for mode, prompt, tokens in STEPS:
    call("PUT", "/spec/mode", mode)
    time.sleep(0.5)
    messages = [{"role": "user", "content": prompt}]
    call("POST", "/v1/chat/completions", {"messages": messages, "max_tokens": tokens, "temperature": 0})
done = True
thread.join()
