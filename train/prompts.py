#!/usr/bin/env python3
"""Makes prompts to train on: code, maths, explanations, lists, letters, stories, chat, several turns.

    python train/prompts.py --count 12000 --also more-prompts.jsonl --out DIR

Writes DIR/train.jsonl and DIR/valid.jsonl (96 prompts that are never trained on). Function stubs come from the
signatures and docstrings of the standard library of the Python that runs this; all else is put together here. `--also`
adds files of prompts, mixed in evenly.
"""

import argparse
import importlib
import inspect
import itertools
import json
import pathlib
import random
import sys
import warnings

TOPICS = """volcanoes|the Roman Empire|photosynthesis|coffee|black holes|the stock market|jazz|chess|glaciers|honey bees
the printing press|solar panels|sleep|whales|bicycles|bread|the Silk Road|vaccines|earthquakes|democracy|tea|magnets
the Great Wall of China|machine learning|rainforests|olive oil|lighthouses|the human heart|migration of birds|cheese
inflation|the periodic table|dinosaurs|origami|coral reefs|the Moon|electric cars|public libraries|rivers|the piano
nuclear energy|opera|the Olympic Games|spiders|compilers|gravity|recycling|the Renaissance|soil|running a marathon
wind turbines|antibiotics|castles|calendars|the violin|hurricanes|databases|penguins|gardening|the alphabet|trains
cryptography|the Vikings|rice|airports|the nervous system|folk tales|robots|ancient Egypt|maps|wolves|water treatment
the French language|skateboarding|the ozone layer|chocolate|satellites|meditation|trade unions|mushrooms|owls|clocks
remote work|the Arctic|DNA|photography|bridges|insurance|elephants|the Industrial Revolution|pottery|tides|newspapers
the immune system|camping|operating systems|swimming|the Ottoman Empire|dance|ants|plastic|poetry|vitamins|deserts
virtual reality|mountain climbing|taxation|horses|the internet|fermentation|Mars|knitting|cities|oceans|kindness""".replace("\n", "|").split("|")

ABOUT = """Explain {t} to a ten-year-old.|Explain how {t} came to be, step by step.|What should everyone know about {t}?
Write a short article about {t}.|Write a blog post introduction about {t}.|Give me seven facts about {t}.
List the main types or parts of {t} and describe each in one sentence.|Why does it matter to learn about {t}?
Write a dialogue between a teacher and a student about {t}.|Compare {t} and {u}.|What do {t} and {u} have in common?
Write a limerick about {t}.|Write a children's story in which {t} plays a part.|Write a short speech about {t}.
Write a newspaper headline and a first paragraph about {t}.|Make a table of advantages and disadvantages of {t}.
Write five quiz questions with answers about {t}.|What are the most common questions people ask about {t}?
Summarize what is known about {t} in three sentences.|Suggest ten titles for a book about {t}.|Describe {t} in detail.
How would you teach a one-hour lesson about {t}? Give a plan.|Write a product description for a museum exhibit on {t}.
What is the history of {t}?|Give an outline of an essay on {t}.|What are the effects of {t} on society?
Describe a day in the life of someone who works with {t}.|Write a haiku about {t} and then explain it.
Imagine a world without {t}. What would be different?|What are three myths about {t}, and what is true instead?
Define {t} in one paragraph for an encyclopedia.|Write a letter to a friend who is curious about {t}.
Tell me a joke about {t}.|How are {t} and {u} connected?|Give step-by-step advice to someone new to {t}.
Write an interview with an expert on {t}.|What tools or skills does one need to study {t}?""".replace("\n", "|").split("|")

PEOPLE = "my manager|a customer|my landlord|a professor|a neighbour|my team|a supplier|a hotel|the city council|a recruiter|an old friend|my grandmother|a charity|the school|a colleague|my doctor".split("|")
MATTERS = """asking for a day off|apologising for a late delivery|proposing a meeting next Tuesday|asking for a refund
thanking them for their help|complaining about noise|inviting them to a birthday party|asking for a letter of reference
announcing a new product|declining an offer politely|reporting a broken heater|asking about opening hours
following up after an interview|sharing good news|asking for feedback on a draft|resigning from a position
explaining a change of schedule|asking for more time on a project|introducing a new colleague|cancelling a booking""".replace("\n", "|").split("|")
LETTERS = ["Write an email to {p} {m}.", "Write a short, polite letter to {p} {m}.", "Draft a message to {p} {m}. Keep it under 100 words.", "Help me write to {p} {m}. Use a friendly tone."]

ROLES = "a travel guide|a pirate captain|a science teacher|a chef|a detective|a medieval knight|a fitness coach|a librarian|a robot from the future|a farmer|an astronaut|a career adviser|a gardener|a historian|a shopkeeper".split("|")
ROLE_ASKS = ["introduce yourself and tell me about {t}", "give me advice about {t}", "tell a short story about {t}", "explain why {t} interests you", "answer this question: what is special about {t}?"]

TASKS = """reverses a string without built-in helpers|counts the vowels in a text|checks whether a word is a palindrome
finds the largest and the smallest number of a list|merges two sorted lists|computes the factorial of n with a loop
returns the n-th Fibonacci number|removes duplicates from a list and keeps the order|counts how often each word occurs
converts Celsius to Fahrenheit|checks whether a number is prime|lists all primes below n with a sieve
sorts a list with bubble sort|sorts a list with merge sort|does a binary search in a sorted list|flattens a nested list
validates an email address|parses a CSV line with quotes|reads a file and prints its longest line|computes a moving average
implements a stack with push and pop|implements a queue with two stacks|implements a linked list with insert and delete
implements a binary search tree with insert and find|walks a directory tree and sums file sizes|draws a text progress bar
transposes a matrix|multiplies two matrices|rotates a list by k places|finds all pairs that add up to a target
checks whether brackets are balanced|converts a number to Roman numerals|converts a decimal number to binary
computes the greatest common divisor|computes the edit distance of two words|groups words that are anagrams
caches results of a slow function|retries a network call with growing delays|formats seconds as hours, minutes and seconds
generates a random password|encrypts a text with a Caesar cipher|counts the lines of code in a file|rolls two dice
simulates a bank account with deposits and withdrawals|keeps a to-do list in memory|checks the strength of a password
finds the shortest path in a grid|does a breadth-first search in a graph|does a depth-first search in a graph
detects a cycle in a linked list|computes the power set of a list|prints Pascal's triangle|solves the Tower of Hanoi
splits a list into chunks of n|interleaves two lists|finds the second largest number|computes the median of a list
computes mean and standard deviation|rounds a price to two decimals|parses a date such as 2024-05-17|checks for leap years
downloads a web page and counts its links|serves a small HTTP endpoint that returns JSON|logs messages with time stamps
counts down from ten|prints a multiplication table|plays tic-tac-toe|guesses a number between 1 and 100
capitalises every word of a sentence|finds the longest common prefix of some strings|compresses a string by run lengths
removes punctuation from a text|swaps the keys and values of a map|sums the digits of a number|finds missing numbers in a range
converts a string to snake case|checks whether two strings are rotations of each other|returns the unique elements of two sets
computes compound interest|converts between units of length|implements a least-recently-used cache|implements a priority queue
evaluates an expression in reverse Polish notation|tokenises an arithmetic expression|wraps text at 72 columns""".replace("\n", "|").split("|")
LANGUAGES = ["Python"] * 8 + ["JavaScript"] * 3 + ["Java", "Java", "C", "C++", "C++", "Rust", "Go", "TypeScript", "Ruby", "C#", "Bash", "PHP", "Kotlin", "Swift"]
CODE = ["Write a {l} function that {k}.", "Write {l} code that {k}, with comments.", "How do I write a {l} function that {k}?", "Show me a {l} program that {k}. Explain how it works.", "Write a {l} function that {k} and give two examples of its use.", "Write a {l} function that {k}, then write tests for it.", "Please implement, in {l}, a function that {k}. Handle edge cases."]
SQL = ["customers who ordered nothing last month", "the ten best-selling products", "the average salary of each department", "employees whose manager left", "the number of orders per day", "students with the highest mark of each class", "duplicate email addresses", "the running total of sales"]
STUBS = ["Complete this function:\n```python\n{s}\n```", "Implement the following Python function.\n```python\n{s}\n```", "Write the body of this function so that it does what its docstring says:\n\n```python\n{s}\n```", "Here is a Python stub. Fill it in and make sure the examples hold.\n```python\n{s}\n```", "Finish the code below and return the whole function.\n```python\n{s}\n```"]

NAMES = "Ana|Ben|Chloe|Dev|Elif|Farid|Greta|Hugo|Ines|Jonas|Kofi|Lena|Marco|Nadia|Omar|Priya|Quinn|Rosa|Sven|Tara".split("|")
GOODS = "apples|pencils|tickets|marbles|cookies|stamps|flowers|books|bottles|cards|eggs|shirts|candles|coins|plants".split("|")
SUMS = [
    "{a} has {x} {g}. {b} has {y} times as many. How many {g} do they have together?",
    "A box holds {x} {g}. A shop sells {y} boxes on Monday and {z} boxes on Tuesday. How many {g} is that?",
    "{a} buys {x} {g} for ${y} each and pays with a ${w} note. How much change does {a} get?",
    "{a} reads {x} pages a day. How many days does a book of {w} pages take, and how many pages are read on the last day?",
    "A train goes {x} km in {y} hours. How far does it go in {z} hours at the same speed?",
    "{a} gives {x}% of {w} {g} to {b}. How many {g} does {a} keep?",
    "{a}, {b} and a friend share {w} {g} equally after {a} has eaten {x}. How many does each get, and how many are left?",
    "A garden is {x} m long and {y} m wide. What are its area and its perimeter?",
    "{a} earns ${x} an hour and works {y} hours a day, {z} days a week. What does {a} earn in four weeks?",
    "The price of a coat is ${w}. It falls by {x}%, and then by another ${y}. What is the new price?",
    "{a} is {x} years old and {b} is {y} years older. How old will {b} be in {z} years?",
    "Solve for x: {y}x + {z} = {w}.",
    "What is {w} divided by {y}? Give the quotient and the remainder.",
    "Compute {x} * {y} + {z} * {y}.",
    "Find the average of {x}, {y}, {z} and {w}.",
]
SUFFIXES = ["", "", "", " Show your steps.", " Think step by step.", "\nExplain your reasoning, then state the answer.", " Write the final answer on its own line.", "\nWork it out step by step and end with the result."]

OPENERS = """Hi! How are you today?|Good morning! What can you do?|I feel a bit tired today. Any ideas?|Can you help me plan my weekend?
What is your favourite book and why?|I am bored. Suggest something to do.|Tell me about yourself.|How do I make new friends in a new town?
What should I cook tonight with eggs, rice and spinach?|I have a job interview tomorrow. How do I prepare?|What is a good gift for a ten-year-old?
How can I learn to play the guitar?|Recommend three films for a rainy day.|How do I get rid of hiccups?|What time should I go to bed?
I want to save money. Where do I start?|Can you teach me a few words of Spanish?|How do I write a good CV?|What is the meaning of life?
My plant is losing its leaves. What is wrong?|How do I stay focused while studying?|Can you give me a riddle?|What is 17 times 23?
How do I tie a tie?|What is the capital of Australia?|Who wrote Don Quixote?|How far away is the Sun?|Translate 'good night' into French.""".replace("\n", "|").split("|")
FOLLOW = """Can you explain that in simpler words?|Give me an example.|Make it shorter.|Now write it as a list.|Why?|Tell me more.
What are the drawbacks?|Rewrite that in a more formal tone.|Summarize your answer in one sentence.|Now add a conclusion.
Translate the first sentence into Spanish.|What would you do differently?|Are you sure? Check it again.|Now do the same for {t}.
Turn that into a poem.|Which of these is the most important?|Could you add more detail?|Thanks! What should I read next?""".replace("\n", "|").split("|")
SENTENCES = ["{t} changed the way people live", "Many people first hear about {t} at school", "The meeting about {t} was moved to Friday", "Nobody expected that {t} would become so popular", "I have been interested in {t} since I was a child"]
TEXT_ASKS = ["Correct the grammar: ", "Rewrite this sentence in the past tense: ", "Say this in other words: ", "Continue this text: ", "Turn this into a question: ", "Is the tone of this sentence positive, negative or neutral? ", "Write three sentences that follow this one: ", "List the nouns in this sentence: "]
SYSTEMS = ["You are a helpful assistant.", "You answer briefly.", "You are a patient teacher.", "You are an expert programmer. Answer with code."]


def stubs(limit: int = 400) -> list[str]:
    """Signatures with docstrings, from the standard library's documented functions."""
    found = []
    warnings.simplefilter("ignore")
    skip = {"antigravity", "this", "idlelib", "turtledemo", "lib2to3"}
    for module_name in sorted(sys.stdlib_module_names):
        if module_name.startswith("_") or module_name in skip:
            continue
        try:
            module = importlib.import_module(module_name)
        except Exception:
            continue
        for name, function in inspect.getmembers(module, inspect.isfunction):
            doc = inspect.getdoc(function)
            if name.startswith("_") or not doc or not 40 < len(doc) < limit or function.__module__ != module_name:
                continue
            body = "\n".join("    " + line if line else "" for line in doc.splitlines())
            try:
                signature = str(inspect.signature(function))
            except ValueError:
                continue
            quoted = body.lstrip().replace("\\", "\\\\")
            found.append(f'def {name}{signature}:\n    """{quoted}\n    """')
    return found


def one(rng: random.Random, kind: str, library: list[str]) -> list[dict]:
    """Messages of one prompt."""
    topic, other = rng.sample(TOPICS, 2)
    user = lambda text: [{"role": "user", "content": text}]
    if kind == "about":
        return user(rng.choice(ABOUT).format(t=topic, u=other))
    if kind == "letter":
        return user(rng.choice(LETTERS).format(p=rng.choice(PEOPLE), m=rng.choice(MATTERS)))
    if kind == "role":
        return user(f"You are {rng.choice(ROLES)}. Please {rng.choice(ROLE_ASKS).format(t=topic)}.")
    if kind == "code":
        return user(rng.choice(CODE).format(l=rng.choice(LANGUAGES), k=rng.choice(TASKS)))
    if kind == "sql":
        return user(f"Write an SQL query that finds {rng.choice(SQL)}. Explain it.")
    if kind == "stub":
        return user(rng.choice(STUBS).format(s=rng.choice(library)))
    if kind == "sum":
        a, b = rng.sample(NAMES, 2)
        numbers = {"x": rng.randint(2, 60), "y": rng.randint(2, 15), "z": rng.randint(2, 12), "w": rng.randint(61, 600)}
        return user(rng.choice(SUMS).format(a=a, b=b, g=rng.choice(GOODS), **numbers) + rng.choice(SUFFIXES))
    if kind == "text":
        return user(rng.choice(TEXT_ASKS) + rng.choice(SENTENCES).format(t=topic).capitalize() + ".")
    if kind == "chat":
        messages = user(rng.choice(OPENERS))
        return [{"role": "system", "content": rng.choice(SYSTEMS)}] * (rng.random() < 0.3) + messages
    raise ValueError(kind)


# `turns` prompts ask a second question; the first answer is the target's, made by `regenerate.py`.
KINDS = {"about": 30, "code": 20, "stub": 12, "sum": 14, "letter": 6, "role": 6, "text": 5, "sql": 1, "chat": 2, "turns": 4}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=12000)
    parser.add_argument("--also", nargs="*", default=[], help="files of prompts to mix in")
    parser.add_argument("--also-most", type=int, default=6000, help="take at most so many of those")
    parser.add_argument("--out", required=True)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    library = stubs()
    names, weights = zip(*KINDS.items())
    seen, made = set(), []
    for _ in itertools.repeat(None, 20 * args.count):
        kind = rng.choices(names, weights)[0]
        base = rng.choice(["about", "code", "chat", "sum", "text"]) if kind == "turns" else kind
        item = {"messages": one(rng, base, library)}
        if kind == "turns":
            item["then"] = rng.choice(FOLLOW).format(t=rng.choice(TOPICS))
        key = json.dumps(item)
        if key not in seen:
            seen.add(key)
            made.append({"id": f"{kind}/{len(made)}", **item})
        if len(made) == args.count:
            break
    added = [json.loads(line) for path in args.also for line in open(path, encoding="utf-8")]
    rng.shuffle(added)
    for item in added[: args.also_most]:
        messages = item.get("messages") or [{"role": "user", "content": item["turns"][0]}]
        messages[-1]["content"] += rng.choice(SUFFIXES) if "how m" in messages[-1]["content"].lower() else ""
        made.append({"id": item["id"], "messages": messages})
    rng.shuffle(made)
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    single = [i for i in made if "then" not in i]
    valid = {id(i) for i in single[:96]}
    for name, items in (("valid", single[:96]), ("train", [i for i in made if id(i) not in valid])):
        with (out / f"{name}.jsonl").open("w", encoding="utf-8") as f:
            f.writelines(json.dumps(i) + "\n" for i in items)
    print(f"{len(made) - 96} prompts to train on ({len(library)} function stubs), 96 to validate on")


if __name__ == "__main__":
    main()
