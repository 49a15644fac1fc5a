#!/usr/bin/env python3
"""Makes tests/fixtures/session.jsonl.zst, from which the screenshots are rendered: drives a real dashboard through keys.

Usage: record-session.py FILE [SPECTOP ARGS]. FILE must not exist. Example, in a folder that holds the model:
  record-session.py session.jsonl.zst --target SmolLM2-135M-Instruct.Q4_1.gguf
The moments that src/cli/screenshot.rs names are seconds of this script.
"""
import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time

SPECTOP = os.environ.get("SPECTOP", "target/debug/spectop")
F5, ENTER, ESC = "\x1b[15~", "\r", "\x1b"
# Second, keys.
KEYS = [
    (4.0, "1"),
    (4.3, "o"),
    (5.0, "p"),
    (5.5, "What is a hash map, and when would I use one?" + ENTER),
    (10.0, "p"),
    (10.5, "Explain how a hash map finds a key, step by step, with an example in Python." + ENTER),
    (11.3, "d"),
    (12.3, "t"),
    (18.8, "o"),
    (19.2, "2"),
    (19.5, ENTER),
    (20.0, "\x15"),
    (20.5, "Write a Python function fibonacci(n) using iteration."),
    (21.5, F5),
    (24.0, "d"),
    (28.0, "t"),
    (33.0, "R"),
    (42.0, "6"),
    (45.0, "q"),
]


def main():
    file, args = sys.argv[1], sys.argv[2:]
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
        os.execv(SPECTOP, [SPECTOP, *args, "--record", file])
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 36, 120, 0, 0))
    start = time.time()
    keys = list(KEYS)
    while True:
        wait = max(0.0, start + keys[0][0] - time.time()) if keys else 5.0
        ready, _, _ = select.select([fd], [], [], wait)
        if ready:
            try:
                if not os.read(fd, 65536):
                    break
            except OSError:
                break
        elif keys:
            os.write(fd, keys.pop(0)[1].encode())
        else:
            break
    os.waitpid(pid, 0)


main()
